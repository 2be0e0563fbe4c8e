// The page: its head, which view is shown, and what is said aloud.
import { html, names, render, useEffect, useRef, useState } from "./html.js";
import { Dialog } from "./parts.js";
import { keep } from "./kept.js";
import { hasToken, named, setToken, whenRefused } from "./rest.js";
import { jobLook } from "./states.js";
import { count } from "./words.js";
import { changed, follow, items, mayChange, whenAwake, whenChanged, world } from "./world.js";
import { Change } from "./views/change.js";
import { Compositions } from "./views/compositions.js";
import { Events } from "./views/events.js";
import { History } from "./views/history.js";
import { OperationView, Operations } from "./views/operations.js";
import { Overview } from "./views/overview.js";
import { PlacementView } from "./views/placement.js";
import { Remove } from "./views/remove.js";
import { Sites } from "./views/sites.js";

const TICK = 5000; // ms, between two drawings when nothing comes: ages grow
const UNSEEN = 20_000; // ms, after which a hidden page closes its connection
const JUST_NOW = 5000; // ms
const FACES = ["auto", "light", "dark"];
const FACE_KEY = "speck-face";

const VIEWS = [
  { path: "graph", name: "Graph" },
  { path: "compositions", name: "Compositions" },
  { path: "placement", name: "Placement" },
  { path: "sites", name: "Sites" },
  { path: "history", name: "History" },
  { path: "operations", name: "Operations" },
  { path: "events", name: "Events" },
];

const OF_ONE = ["graph", "placement", "history"]; // views of one composition

const routeOf = (hash) => {
  const [path, ...rest] = hash.replace(/^#\/?/, "").split("/");
  let argument = null;
  try {
    argument = rest.length && rest[0] ? decodeURIComponent(rest.join("/")) : null;
  } catch {
    // not of our making
  }
  return { path: path || "graph", argument };
};

const go = (hash) => {
  location.hash = hash;
};

// --- following

let stopping = new AbortController();

let begun = 0; // when, ms

const begin = () => {
  begun = Date.now();
  stopping.abort();
  stopping = new AbortController();
  follow(stopping.signal);
};

// What was told last may be old by now: the page says so until it is told again.
const beginAnew = () => {
  if (document.hidden || Date.now() - begun < JUST_NOW) return; // who comes back to it begins anyway
  Object.assign(world, { live: false, polling: false, why: "reconnecting" });
  changed();
  begin();
};

// A page that nobody sees gives its connection back: a browser has six for one server.
const followWhileSeen = () => {
  let timer = 0;
  let away = false;
  const leave = () => {
    away = true;
    stopping.abort();
  };
  const turn = () => {
    clearTimeout(timer);
    if (document.hidden) timer = setTimeout(leave, UNSEEN);
    else if (away) comeBack();
  };
  const comeBack = () => {
    away = false;
    begin();
  };
  document.addEventListener("visibilitychange", turn);
  window.addEventListener("pagehide", leave);
  window.addEventListener("pageshow", (event) => event.persisted && comeBack());
};

const useWorld = () => {
  const [, draw] = useState(0);
  useEffect(() => {
    const redraw = () => draw((number) => number + 1);
    const stop = whenChanged(redraw);
    const timer = setInterval(redraw, TICK);
    return () => {
      stop();
      clearInterval(timer);
    };
  }, []);
};

const useRoute = () => {
  const [route, setRoute] = useState(routeOf(location.hash));
  const first = useRef(route);
  useEffect(() => {
    const turn = () => setRoute(routeOf(location.hash));
    window.addEventListener("hashchange", turn);
    return () => window.removeEventListener("hashchange", turn);
  }, []);
  useEffect(() => {
    if (route === first.current) return;
    window.scrollTo(0, 0);
    document.getElementById("main")?.focus({ preventScroll: true }); // once no dialog of the view before is left
  }, [route]);
  return route;
};

// --- the head

const Face = () => {
  const [face, setFace] = useState(document.documentElement.dataset.face ?? "auto");
  const turn = () => {
    const next = FACES[(FACES.indexOf(face) + 1) % FACES.length];
    if (next === "auto") delete document.documentElement.dataset.face;
    else document.documentElement.dataset.face = next;
    keep("localStorage", FACE_KEY, next === "auto" ? "" : next);
    setFace(next);
  };
  const mark = { auto: "◐", light: "☀", dark: "☾" }[face];
  return html`<button type="button" id="face" class="icon" aria-label="Colours: ${face}" title="Colours: ${face}" onClick=${turn}>${mark}</button>`;
};

const Connection = () => {
  const told = [...world.trouble.entries()];
  if (world.live && !told.length) return html`<span class="live tone-good" role="status"><span class="dot"></span>live</span>`;
  if (world.polling) return html`<span class="live tone-warn" role="status" title="Polled every few seconds: ${world.why}"><span class="dot"></span>every 5 s</span>`;
  const why = world.live ? told.map(([part, message]) => `${part}: ${message}`).join("; ") : world.why;
  return html`<span class=${names("live", world.live ? "tone-warn" : "tone-bad")} role="status" title=${why}><span class="dot"></span>${world.live ? "degraded" : world.loaded ? "disconnected" : world.why}</span>`;
};

const Chooser = ({ chosen, path }) => {
  const all = items("composition").map((each) => each.name).sort();
  if (all.length < 2) return null;
  const target = OF_ONE.includes(path) ? path : "graph";
  return html`
    <label class="chooser"><span class="unseen">Composition</span>
      <select value=${chosen ?? ""} onChange=${(event) => go(event.target.value ? `#/${target}/${named(event.target.value)}` : "#/graph/")}>
        ${target === "graph" && html`<option value="">All compositions</option>`}
        ${all.map((name) => html`<option value=${name}>${name}</option>`)}
      </select>
    </label>
  `;
};

// On a narrow page the views are in a row that scrolls: the current one is kept in sight.
const useCurrentInSight = (path) => {
  useEffect(() => {
    document.querySelector(".head nav [aria-current]")?.scrollIntoView({ block: "nearest", inline: "nearest" });
  }, [path]);
};

const Head = ({ route, chosen }) => {
  useCurrentInSight(route.path);
  return html`
    <header class="head">
      <a class="brand" href="#/graph" aria-label="SpecK: graph"><img src="/dashboard/mark.svg" alt="" width="26" height="26" />SpecK</a>
      <nav aria-label="Views">
        ${VIEWS.map((view) => html`
          <a href="#/${view.path}${OF_ONE.includes(view.path) && chosen ? `/${named(chosen)}` : ""}" aria-current=${route.path === view.path ? "page" : null}>${view.name}</a>
        `)}
      </nav>
      <div class="head-end">
        <${Chooser} chosen=${chosen} path=${route.path} />
        <${Connection} />
        <${Face} />
        ${mayChange()
          ? html`<a class="button main" href="#/change" aria-current=${route.path === "change" ? "page" : null}>Change</a>`
          : html`<span class="quiet" title="Changes require a token with write access">read-only</span>`}
      </div>
    </header>
  `;
};

// --- the token

const Token = ({ wrong, onDone }) => {
  const [value, setValue] = useState("");
  const take = (event) => {
    event.preventDefault();
    setToken(value.trim());
    onDone();
  };
  return html`
    <${Dialog} title="Sign in" onClose=${onDone}>
      <form onSubmit=${take}>
        <p>Enter the access token (the value of <code>SPECK_TOKEN</code>). It is kept until you close this tab.</p>
        ${wrong && html`<p class="notice tone-bad" role="alert">Invalid token.</p>`}
        <label class="block"><span>Token</span><input type="password" autocomplete="off" required value=${value} onInput=${(event) => setValue(event.target.value)} /></label>
        <div class="row end"><button type="submit" class="main">Sign in</button></div>
      </form>
    <//>
  `;
};

// --- what is said aloud: little, and only what somebody waits for or should know

const useSpoken = () => {
  const before = useRef({ operations: new Map(), bad: new Set(), heard: true, first: true });
  const [said, setSaid] = useState("");
  useEffect(() =>
    whenChanged(() => {
      const last = before.current;
      const operations = new Map(items("operation").map((each) => [each.id, each]));
      const bad = new Set(items("job").filter((job) => jobLook(job).tone === "bad").map((job) => job.job_name));
      const words = [];
      for (const [id, each] of operations) {
        if (last.operations.get(id) === "running" && each.state !== "running") words.push(`${each.kind} of ${each.composition} ${each.state}`);
      }
      const fallen = [...bad].filter((name) => !last.bad.has(name));
      if (fallen.length) words.push(fallen.length > 3 ? `${count(fallen.length, "job")} failed or lost` : `${fallen.join(", ")} failed or lost`);
      const heard = world.live || world.polling;
      if (last.heard !== heard && world.loaded) words.push(heard ? "connected" : "connection lost");
      before.current = {
        operations: new Map([...operations].map(([id, each]) => [id, each.state])),
        bad,
        heard,
        first: !world.loaded,
      };
      if (words.length && !last.first) setSaid(words.join(". "));
    }), []);
  return said;
};

// --- the whole

const View = ({ route, chosen }) => {
  if (route.path === "compositions") return html`<${Compositions} />`;
  if (route.path === "sites") return html`<${Sites} />`;
  if (route.path === "history") return html`<${History} key=${chosen} name=${chosen} go=${go} />`;
  if (route.path === "placement") return html`<${PlacementView} key=${chosen} name=${chosen} go=${go} />`;
  if (route.path === "events") return html`<${Events} />`;
  if (route.path === "change") return html`<${Change} go=${go} />`;
  if (route.path === "delete") return html`<${Remove} key=${route.argument} name=${route.argument ?? ""} go=${go} />`;
  if (route.path === "operations") {
    return route.argument ? html`<${OperationView} id=${route.argument} />` : html`<${Operations} key=${world.server} />`;
  }
  return html`<${Overview} key=${chosen} name=${chosen} />`;
};

const Page = () => {
  useWorld();
  const route = useRoute();
  const said = useSpoken();
  const [refused, setRefused] = useState(null);
  useEffect(() => {
    whenRefused((wrong) => setRefused({ wrong }));
    begin();
    followWhileSeen();
    whenAwake(beginAnew);
  }, []);
  const compositions = items("composition").map((each) => each.name).sort();
  const asked = [...OF_ONE, "delete"].includes(route.path) ? route.argument : null;
  const first = compositions.length === 1 || route.path === "history" ? compositions[0] : null;
  const chosen = asked ?? first ?? null;
  useEffect(() => {
    const view = VIEWS.find((each) => each.path === route.path)?.name ?? (route.path === "delete" ? "Delete" : "Change");
    document.title = `${asked ?? view} · SpecK`;
  }, [route.path, asked]);
  const done = () => {
    setRefused(null);
    begin();
  };
  return html`
    <a class="skip" href="#main" onClick=${(event) => {
      event.preventDefault();
      document.getElementById("main").focus();
    }}>Skip to content</a>
    <${Head} route=${route} chosen=${chosen} />
    <main id="main" tabindex="-1" aria-busy=${world.loaded ? "false" : "true"}>
      ${world.loaded || (route.path === "change" && world.owner)
        ? html`<${View} route=${route} chosen=${chosen} />`
        : html`<p class="quiet pad">${refused || !hasToken() ? "Waiting for the server …" : "Connecting …"}</p>`}
    </main>
    <div class="unseen" aria-live="polite">${said}</div>
    ${refused && html`<${Token} wrong=${refused.wrong} onDone=${done} />`}
  `;
};

render(html`<${Page} />`, document.getElementById("page"));
changed();
