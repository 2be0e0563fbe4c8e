// The map of geofencing: what the stream brings, and what a user does.
import { whenColoursChange } from "./colours.js";
import { Drawing } from "./drawing.js";
import { Fences } from "./fences.js";
import { Movers } from "./movers.js";
import * as panel from "./panel.js";

const { $ } = panel;

const map = L.map("map", { attributionControl: false, zoomControl: true, preferCanvas: true, zoomSnap: 0.25 });
map.setView([46.95, 7.45], 9);
L.control.scale({ imperial: false }).addTo(map);

const movers = new Movers().addTo(map);
const fences = new Fences(map, (name, event) => {
  if (drawing.isOn) return;
  L.DomEvent.stop(event);
  const mover = movers.nearest(event.latlng);
  choose(...(mover === null ? ["fence", name] : ["mover", mover]));
});
const drawing = new Drawing(map);

let counts = {};
let answers = new Map();
let chosen = null; // {kind, name, question}
let redrawn = null; // the fence whose new shape is drawn
let isFitted = false;

// --- the stream

const begin = (sites) => {
  fences.clear();
  movers.movers.clear();
  movers.sites = sites;
  answers = new Map();
  counts = {};
  panel.clearEvents();
  panel.showSites(sites);
};

const take = {
  mover: (name, [longitude, latitude, site]) => movers.move(name, longitude, latitude, site),
  fence: (name, record) => fences.put(name, record),
  inside: (name, value) => fences.setInside(name, value),
  count: (name, value) => {
    counts[name] = value;
  },
  answer: (name, value) => answers.set(name, value),
  refusal: (name, reason) => panel.say(`Fence ${name} was refused: ${reason}`, true),
  event: () => {},
};

const receive = ({ sites, items }) => {
  const isFirst = sites !== undefined;
  if (isFirst) begin(sites);
  for (const [kind, name, value] of items) take[kind]?.(name, value);
  const events = items.filter(([kind]) => kind === "event").map(([, , event]) => event);
  panel.addEvents(events);
  if (!isFirst) for (const event of events) if (event.event === "enter" || event.event === "exit") movers.ring(event.position, event.event);
  if (items.some(([kind]) => kind === "fence")) listNames();
  counts.movers = movers.movers.size;
  counts.fences = fences.names().length;
  panel.showCounts(counts);
  showChosen();
  if (!isFitted && counts.fences) {
    isFitted = true;
    map.fitBounds(fences.bounds(), { animate: false, padding: [12, 12] });
  }
};

const listNames = () => {
  $("names").replaceChildren(...fences.names().map((name) => Object.assign(document.createElement("option"), { value: name })));
};

const live = (text, state) => {
  $("live").textContent = text;
  $("live").className = state;
};

const news = new EventSource("/news");
news.addEventListener("open", () => live("live", "live"));
news.addEventListener("message", (event) => receive(JSON.parse(event.data)));
news.addEventListener("error", () => live("connection lost; trying again", "lost"));

// --- what is chosen

const choose = async (kind, name) => {
  chosen = { kind, name, question: null };
  fences.choose(kind === "fence" ? name : null);
  movers.choose(kind === "mover" ? name : null);
  panel.say("");
  showChosen();
  const answer = await send("POST", "/questions", { [kind]: name });
  if (answer && chosen?.name === name) chosen.question = answer.question;
  showChosen();
};

let written = "";

const showChosen = () => {
  if (!chosen) return;
  const { kind, name } = chosen;
  const answer = answers.get(chosen.question);
  const fence = fences.get(name);
  const state = JSON.stringify([kind, name, answer, kind === "fence" && [fence?.time, fence?.state, fence?.inside, Boolean(fence?.geometry)]]);
  if (state === written) return; // an element that has the focus stays
  written = state;
  if (kind === "mover") panel.showMover(name, answer);
  else if (fences.has(name)) panel.showFence(name, fence, answer, { redraw: () => draw(name), remove: () => change(name, null) });
  else panel.showNothing(`There is no fence ${name}.`);
};

const send = async (method, path, body) => {
  try {
    const answer = await fetch(path, { method, headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) });
    const found = await answer.json();
    if (answer.ok) return found;
    panel.say(found.detail, true);
  } catch {
    panel.say("The page's server does not respond.", true);
  }
  return null;
};

$("find").addEventListener("submit", (event) => {
  event.preventDefault();
  const name = $("name").value.trim();
  if (fences.has(name)) {
    choose("fence", name);
    map.panTo(fences.get(name).layer.getBounds().getCenter());
  } else if (movers.placeOf(name)) {
    choose("mover", name);
    map.panTo(movers.placeOf(name));
  } else panel.say(`There is no fence and no mover ${name}.`, true);
});

// --- drawing

const draw = (name) => {
  redrawn = name;
  drawing.begin();
  $("drawing-title").textContent = name === null ? "A new fence" : `Redraw ${name}`;
  $("new-name").hidden = name !== null;
  document.querySelector("label[for=new-name]").hidden = name !== null;
  $("new-name").value = "";
  $("drawing").hidden = false;
  $("draw").hidden = true;
  panel.say("");
};

const endDrawing = () => {
  drawing.end();
  $("drawing").hidden = true;
  $("draw").hidden = false;
};

map.on("click", ({ latlng }) => {
  if (drawing.isOn) {
    drawing.add(latlng);
    return;
  }
  const mover = movers.nearest(latlng);
  if (mover !== null) choose("mover", mover);
});

const change = async (name, geometry) => {
  const answer = await send("PUT", `/fences/${encodeURIComponent(name)}`, { geometry });
  if (!answer) return;
  endDrawing();
  await choose("fence", name);
  panel.say(`Fence ${name} was sent; it holds from ${clockOf(answer.time)}.`);
};

const clockOf = (time) => (time ? panel.clock(time) : "5 s after its receipt");

$("draw").addEventListener("click", () => draw(null));
$("undo").addEventListener("click", () => drawing.undo());
$("cancel").addEventListener("click", endDrawing);
$("drawing").addEventListener("submit", async (event) => {
  event.preventDefault();
  const name = redrawn ?? $("new-name").value.trim();
  const geometry = drawing.geometry();
  if (!name) panel.say("The fence needs a name.", true);
  else if (redrawn === null && fences.has(name)) panel.say(`There is a fence ${name} already: select it to redraw it.`, true);
  else if (geometry === null) panel.say("A fence needs three corners or more.", true);
  else await change(name, geometry);
});

whenColoursChange(() => {
  fences.restyleAll();
  movers.ask();
});
panel.showCounts(counts);
