// The panel beside the map: counts, the chosen fence or mover, and the last events.
const MOST = 40; // events in the list

const COUNTS = {
  movers: "movers",
  fences: "fences",
  visits: "open visits",
  positions: "positions",
  events: "events",
  late: "late",
  rejected: "rejected",
  versions: "fence versions",
  refused: "refused fences",
};

// Of the program `compare`, once it has compared.
const COMPARED = { awaited: "expected", missing: "missing", extra: "extra", twice: "twice", wrong: "wrong" };

export const $ = (id) => document.getElementById(id);

export const make = (name, text = "", classes = "") => {
  const found = document.createElement(name);
  found.textContent = text;
  found.className = classes;
  return found;
};

export const clock = (time) => (time ? time.slice(11, 19) : "");

export const showSites = (sites) => {
  $("sites").replaceChildren(...sites.map((site, number) => make("li", site, `site-${number % 6}`)));
};

const shown = new Map();

export const showCounts = (counts) => {
  if ((counts.awaited ?? null) === null) forgetComparison();
  for (const [name, title] of Object.entries({ ...COUNTS, ...((counts.awaited ?? null) === null ? {} : COMPARED) })) {
    if (!shown.has(name)) {
      const group = make("div");
      shown.set(name, make("dd"));
      group.append(make("dt", title), shown.get(name));
      $("counts").append(group);
    }
    shown.get(name).textContent = (counts[name] ?? 0).toLocaleString("en");
  }
};

const forgetComparison = () => {
  for (const name of Object.keys(COMPARED)) {
    shown.get(name)?.parentElement.remove();
    shown.delete(name);
  }
};

export const clearEvents = () => $("events").replaceChildren();

export const addEvents = (events) => {
  const lines = events.slice(-MOST).map((event) => {
    const line = make("li", "", event.event);
    const subject = event.mover ? `${event.mover}${event.fence ? ` · ${event.fence}` : ""}` : (event.fence ?? event.reason ?? "");
    line.append(make("span", clock(event.time), "quiet"), make("b", event.event), make("span", subject));
    return line;
  });
  $("events").prepend(...lines.reverse());
  while ($("events").children.length > MOST) $("events").lastChild.remove();
};

const facts = (pairs) => {
  const list = make("dl");
  for (const [name, value] of pairs) list.append(make("dt", name), make("dd", value));
  return list;
};

const button = (title, action) => {
  const found = make("button", title);
  found.type = "button";
  found.addEventListener("click", action);
  return found;
};

export const showNothing = (text) => $("chosen").replaceChildren(make("p", text, "quiet"));

export const showFence = (name, fence, answer, actions) => {
  const names = answer?.movers.map((each) => each.mover) ?? [];
  const list = facts([
    ["state", fence.state === "admitted" ? "admitted" : "sent, not admitted yet"],
    ["holds from", fence.time.replace("T", " ").replace("Z", "")],
    ["movers", fence.movers?.join(", ") ?? "all"],
    ["confirm, dwell", `${fence.confirm} s, ${fence.dwell} s`],
    ["inside", answer ? `${names.length} at ${clock(answer.reached)}` : `${fence.inside}`],
  ]);
  const row = make("p");
  row.append(button("Redraw", actions.redraw), " ", button("Delete", actions.remove));
  $("chosen").replaceChildren(make("strong", name), list, make("p", names.join(", "), "quiet movers"), row);
};

export const showMover = (name, answer) => {
  const [found] = answer?.movers ?? [];
  const fences = found ? Object.entries(found.in ?? {}).map(([fence, since]) => `${fence} since ${clock(since)}`) : [];
  const list = facts([
    ["seen at", found ? clock(found.time) : ""],
    ["site", found?.site ?? ""],
    ["inside", answer ? fences.join(", ") || "no fence" : "asking"],
  ]);
  $("chosen").replaceChildren(make("strong", name), list);
};

export const say = (text, isBad = false) => {
  $("message").textContent = text;
  $("message").className = isBad ? "bad" : "";
};
