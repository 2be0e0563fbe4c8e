// What the states and verdicts mean, each with a mark of its own, so that no meaning hangs on a colour alone.

export const JOB_STATES = {
  running: { tone: "good", mark: "✓", text: "running" },
  starting: { tone: "busy", mark: "↻", text: "starting" },
  pending: { tone: "still", mark: "…", text: "pending" },
  stopped: { tone: "still", mark: "■", text: "stopped" },
  finished: { tone: "warn", mark: "■", text: "finished" },
  failed: { tone: "bad", mark: "✕", text: "failed" },
  lost: { tone: "bad", mark: "?", text: "lost" },
  unknown: { tone: "warn", mark: "?", text: "unknown" },
};

export const VERDICTS = {
  start: { tone: "good", mark: "+", text: "start" },
  stop: { tone: "bad", mark: "−", text: "stop" },
  update: { tone: "warn", mark: "~", text: "update" },
  move: { tone: "move", mark: "→", text: "move" },
  keep: { tone: "still", mark: "=", text: "keep" },
};

export const PROGRESS = {
  pending: { tone: "still", mark: "…", text: "pending" },
  running: { tone: "busy", mark: "↻", text: "in progress" },
  settling: { tone: "busy", mark: "◷", text: "settling" },
  done: { tone: "good", mark: "✓", text: "done" },
  failed: { tone: "bad", mark: "✕", text: "failed" },
  skipped: { tone: "warn", mark: "⤼", text: "skipped" },
  waiting: { tone: "warn", mark: "◷", text: "waiting" },
  kept: { tone: "still", mark: "=", text: "unchanged" },
};

export const OPERATIONS = {
  running: { tone: "busy", mark: "↻", text: "in progress" },
  succeeded: { tone: "good", mark: "✓", text: "succeeded" },
  failed: { tone: "bad", mark: "✕", text: "failed" },
  waiting: { tone: "warn", mark: "◷", text: "waiting" },
};

export const REVISIONS = {
  pending: { tone: "busy", mark: "…", text: "pending" },
  applied: { tone: "good", mark: "✓", text: "applied" },
  "partly applied": { tone: "warn", mark: "◷", text: "partly applied" },
  failed: { tone: "bad", mark: "✕", text: "failed" },
  superseded: { tone: "still", mark: "↷", text: "superseded" },
  "rolled back": { tone: "still", mark: "←", text: "rolled back" },
};

export const ADAPTATIONS = {
  off: { tone: "still", mark: "■", text: "off" },
  advising: { tone: "still", mark: "i", text: "advising" },
  watching: { tone: "good", mark: "✓", text: "watching" },
  moving: { tone: "busy", mark: "↻", text: "moving jobs" },
  judging: { tone: "busy", mark: "?", text: "evaluating a step" },
  paused: { tone: "warn", mark: "◷", text: "paused" },
};

export const DECISIONS = {
  hold: { tone: "still", mark: "=", text: "hold" },
  advise: { tone: "busy", mark: "i", text: "advise" },
  step: { tone: "move", mark: "→", text: "step" },
  back: { tone: "warn", mark: "←", text: "revert" },
};

export const OUTCOMES = {
  pending: { tone: "busy", mark: "…", text: "under evaluation" },
  kept: { tone: "good", mark: "✓", text: "kept" },
  back: { tone: "warn", mark: "←", text: "reverted" },
  failed: { tone: "bad", mark: "✕", text: "failed" },
  superseded: { tone: "still", mark: "↷", text: "superseded by an apply" },
};

const UNHEARD = { tone: "still", mark: "·", text: "" };

export const look = (table, word) => table[word] ?? { ...UNHEARD, text: String(word) };

const UNSEEN = "not observed yet"; // of a job that was just started

// The recent losses of a job, the gravest first; repetitions that were dropped are none.
export const alarms = (job) => (job.losses ?? []).filter((each) => each.alarm);

const LOSSES = { lost: "lost messages", suspect: "possible message loss", "set aside": "messages set aside" };

// A job as one mark: its state, but where it should not be so, that it drifted or lost messages.
export const jobLook = (job) => {
  if (job.fold) return job.fold.look; // several jobs as one
  if (job.state === "unknown" && job.message === UNSEEN) return { ...JOB_STATES.pending, text: UNSEEN };
  const found = look(JOB_STATES, job.state);
  if (job.wanted === "stopped" && job.state === "running") return { tone: "warn", mark: "■", text: "to be stopped" };
  if (job.drift && found.tone === "good") return { tone: "warn", mark: "!", text: job.drift };
  const [gravest] = alarms(job);
  if (gravest && found.tone === "good") return { tone: "warn", mark: "▲", text: `${found.text}, ${LOSSES[gravest.kind] ?? gravest.kind}` };
  return found;
};

// Whether a job needs attention.
export const troubled = (job) => ["bad", "warn"].includes(jobLook(job).tone) || Boolean(job.drift) || alarms(job).length > 0;

// The fields of a job whose texts are shown: a text that another one contains is not repeated.
export const textsOf = (job, rates) => {
  const texts = { error: job.error, waits: job.waits, drift_message: job.drift_message, message: job.message, rates: rates?.error };
  const given = Object.entries(texts).filter(([, text]) => text);
  const repeated = ([, text], place) => given.some(([, other], at) => other.includes(text) && (other.length > text.length || at < place));
  return new Set(given.filter((each, place) => !repeated(each, place)).map(([field]) => field));
};
