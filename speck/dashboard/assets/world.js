// What the server has told so far: items by kind and name, as of the last event; and whether it still tells.
import { Refusal, read, stream } from "./rest.js";

const RETRY = [500, 1000, 2000, 5000, 10_000]; // ms

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
});

export const world = {
  kinds: empty(),
  trouble: new Map(),
  loaded: false, // whether anything was told yet
  live: false,
  why: "connecting", // why it is not live
  ahead: 0, // s, by which the server's clock is ahead of this one
};

export const now = () => Date.now() / 1000 + world.ahead;
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

const take = (data) => {
  if (data.whole) {
    world.kinds = empty();
    world.trouble = new Map();
  }
  for (const [kind, name, value] of data.items) {
    const known = kind.startsWith("trouble-") ? world.trouble : (world.kinds[kind] ??= new Map());
    if (value === null) known.delete(name);
    else known.set(name, value);
  }
  world.ahead = data.now - Date.now() / 1000;
  world.loaded = true;
  world.live = true;
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

// What the stream would tell, asked for: for a server that too many follow already.
const ask = async () => {
  const [jobs, compositions, rates, events] = await Promise.all([
    read("/jobs"),
    read("/compositions"),
    read("/rates"),
    read("/events", { limit: 200 }),
  ]);
  const kinds = world.kinds;
  kinds.job = byName(jobs, "job_name");
  kinds.observed = new Map(jobs.map((each) => [each.job_name, each.observed_at]));
  kinds.composition = byName(compositions, "name");
  kinds.rate = byName(rates.jobs, "job_name");
  kinds.event = new Map(events.map((each, index) => [`${each.at.toFixed(6).padStart(17, "0")}-${String(index).padStart(4, "0")}`, each]));
  world.loaded = true;
  changed();
};

let last = ""; // the id of the last event

// Follow the server until `signal` says to stop; a stream that breaks is taken up where it was.
export const follow = async (signal) => {
  let failures = 0;
  while (!signal.aborted) {
    try {
      await stream("/live", last, (data, id) => {
        last = id;
        failures = 0;
        take(data);
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
      if (error.status === 503) await ask().catch(() => {});
    }
    world.live = false;
    changed();
    await pause(RETRY[Math.min(failures, RETRY.length - 1)], signal);
    failures += 1;
  }
};
