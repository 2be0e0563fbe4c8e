// What the server has told so far: items by kind and name, as of the last event; and whether it still tells.
import { Refusal, named, read, stream } from "./rest.js";

const RETRY = [500, 1000, 2000, 5000, 10_000]; // ms
const JUMP = 20; // s; a clock that goes on by more than that between two looks has slept, or was set
const POLL = 5000; // ms between two times that all is asked for
const SITES = 10_000; // ms; to tell of sites, the server asks engines and brokers
const OPERATIONS = 8; // as many as the stream tells

const empty = () => ({
  job: new Map(),
  observed: new Map(),
  composition: new Map(),
  operation: new Map(),
  action: new Map(),
  event: new Map(),
  site: new Map(),
  reach: new Map(),
  rate: new Map(),
  placement: new Map(), // the state of the loop that adapts, by composition
  link: new Map(),
  worker: new Map(), // the workers of engines that scale, by address
});

export const world = {
  kinds: empty(),
  trouble: new Map(),
  loaded: false, // whether anything was told yet
  live: false,
  polling: false, // whether it is asked for now and then, since it cannot be followed
  owner: null, // whose token is shown, { name, role }, once that is known
  why: "connecting", // why it is not live
  ahead: 0, // s, by which the server's clock is ahead of this one
  server: "", // which run of the server tells; what another one told may be of another store
};

export const now = () => Date.now() / 1000 + world.ahead;
export const mayChange = () => world.owner?.role !== "read";
export const items = (kind) => [...world.kinds[kind].values()];

let listeners = [];
let due = false;

// `listener` is called once a frame at most, after something changed.
export const whenChanged = (listener) => {
  listeners = [...listeners, listener];
  return () => {
    listeners = listeners.filter((each) => each !== listener);
  };
};

export const changed = () => {
  if (due) return;
  due = true;
  // A page in the background gets no frames, and has none to draw.
  const run = () => {
    due = false;
    for (const each of listeners) each();
  };
  if (document.hidden) setTimeout(run, 1000);
  else requestAnimationFrame(run);
};

const setClock = (seconds) => {
  world.ahead = seconds - Date.now() / 1000;
};

const take = (data, id) => {
  world.server = id.split("-")[0];
  if (data.whole) {
    world.kinds = empty();
    world.trouble = new Map();
  }
  for (const [kind, name, value] of data.items) {
    const known = kind.startsWith("trouble-") ? world.trouble : (world.kinds[kind] ??= new Map());
    if (value === null) known.delete(name);
    else known.set(name, value);
  }
  setClock(data.now);
  world.loaded = true;
  world.live = true;
  world.polling = false;
  changed();
};

const pause = (milliseconds, signal) =>
  new Promise((resolve) => {
    const timer = setTimeout(resolve, milliseconds);
    signal.addEventListener("abort", () => {
      clearTimeout(timer);
      resolve();
    });
  });

const byName = (all, key) => new Map(all.map((each) => [each[key], each]));

const siteOf = ({ name, engines, broker, uplink }) => ({ name, engines: engines.map((each) => each.address), broker: broker.address, uplink });

let sitesAsked = 0; // when, ms

const askSites = async () => {
  if (Date.now() - sitesAsked < SITES) return;
  sitesAsked = Date.now();
  const sites = await read("/sites");
  world.kinds.site = byName(sites.map(siteOf), "name");
  world.kinds.reach = byName(sites, "name");
  changed();
};

// The operations, and the actions of those that have gone on since they were asked for.
const askOperations = async () => {
  const { operation: before, action } = world.kinds;
  const operations = await read("/operations", { limit: OPERATIONS });
  const moved = operations.filter((each) => each.state === "running" || before.get(each.id)?.state !== each.state);
  const whole = await Promise.all(moved.map((each) => read(`/operations/${named(each.id)}`)));
  const ids = new Set(operations.map((each) => each.id));
  const kept = [...action].filter(([key]) => ids.has(key.split(" ")[0]));
  const told = whole.flatMap(({ id, actions }) => actions.filter((each) => each.state !== "kept").map((each) => [`${id} ${each.job}`, each]));
  return { operation: byName(operations, "id"), action: new Map([...kept, ...told]) };
};

// What the stream would tell, asked for: for a server that too many follow already.
const ask = async () => {
  const [jobs, compositions, rates, adaptations, links, workers, events, operations] = await Promise.all([
    read("/jobs", {}, setClock),
    read("/compositions"),
    read("/rates"),
    read("/adapt"),
    read("/links"),
    read("/workers"),
    read("/events", { limit: 200 }),
    askOperations(),
  ]);
  Object.assign(world.kinds, operations, {
    job: byName(jobs, "job_name"),
    observed: new Map(jobs.map((each) => [each.job_name, each.observed_at])),
    composition: byName(compositions, "name"),
    rate: byName(rates.jobs, "job_name"),
    placement: byName(adaptations.compositions, "composition"),
    link: new Map(links.map((each) => [`${each.source} ${each.target}`, each])),
    worker: byName(workers, "engine"),
    event: new Map(events.map((each, index) => [`${each.at.toFixed(6).padStart(17, "0")}-${String(index).padStart(4, "0")}`, each])),
  });
  world.trouble = new Map();
  world.loaded = true;
  last = ""; // the stream names events in its own way: it begins anew
  askSites().catch(() => {});
};

let last = ""; // the id of the last event

// Whose token is shown, and in which role: the server ends the stream when that changes.
const askOwner = async () => {
  world.owner = await read("/whoami");
  changed();
};

// Instead of following: answers whether the server told something.
const poll = () =>
  ask().then(
    () => true,
    () => false,
  );

// Follow the server until `signal` says to stop; a stream that breaks is taken up where it was.
export const follow = async (signal) => {
  let failures = 0;
  while (!signal.aborted) {
    let polling = false;
    try {
      await askOwner();
      let begun = false;
      await stream("/live", last, (data, id) => {
        last = id;
        failures = 0;
        // Again: a role that changed before the stream began does not end it.
        if (!begun) askOwner().catch(() => {});
        begun = true;
        take(data, id);
      }, signal);
      world.why = "the server ended the connection";
    } catch (error) {
      if (signal.aborted) return;
      world.why = error instanceof Refusal ? error.message : "the connection was lost";
      if (error.status === 401) {
        world.live = false;
        changed();
        return;
      }
      polling = error.status === 503 && (await poll());
    }
    if (signal.aborted) return; // somebody else follows now
    Object.assign(world, { live: false, polling });
    changed();
    await pause(polling ? POLL : RETRY[Math.min(failures, RETRY.length - 1)], signal);
    failures = polling ? 0 : failures + 1;
  }
};

// Calls `action` when this computer seems to have slept, or has a network again: a connection of before may be dead,
// and nobody would tell.
export const whenAwake = (action) => {
  let before = Date.now();
  setInterval(() => {
    const slept = Math.abs(Date.now() - before) / 1000 > JUMP;
    before = Date.now();
    if (slept) action();
  }, 1000);
  window.addEventListener("online", action);
};
