// Numbers, times and addresses as people read them.

const PRECISE = new Intl.NumberFormat("en", { maximumFractionDigits: 1 });
const WHOLE = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const SHORT = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });

export const known = (value) => value !== null && value !== undefined;

export const amount = (value) =>
  !known(value) ? "–" : Math.abs(value) >= 100_000 ? SHORT.format(value) : WHOLE.format(value);

// In as little room as can be.
export const brief = (value) => (value >= 1000 ? SHORT.format(value) : WHOLE.format(value));

export const rate = (value) => {
  if (!known(value)) return "–";
  if (value >= 100_000) return `${SHORT.format(value)}/s`;
  return value > 0 && value < 10 ? `${PRECISE.format(value)}/s` : `${WHOLE.format(value)}/s`;
};

// `seconds` as a span: 340 ms, 2.4 s, 3 min, 5 h, 2 d.
export const span = (seconds) => {
  if (!known(seconds)) return "–";
  const size = Math.abs(seconds);
  if (size < 1) return `${Math.round(size * 1000)} ms`;
  if (size < 10) return `${PRECISE.format(size)} s`;
  if (size < 100) return `${Math.round(size)} s`;
  if (size < 5400) return `${Math.round(size / 60)} min`;
  return size < 129_600 ? `${Math.round(size / 3600)} h` : `${Math.round(size / 86_400)} d`;
};

// How long ago it was; coarse enough that it does not change at each look.
export const ago = (then, now) => {
  if (!known(then)) return "–";
  const seconds = Math.max(0, now - then);
  return seconds < 5 ? "just now" : `${span(seconds < 60 ? Math.floor(seconds / 5) * 5 : seconds)} ago`;
};

const DAY_TIME = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });
const DATE = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short", year: "numeric" });

export const clock = (at) => DAY_TIME.format(at * 1000);
export const day = (at) => DATE.format(at * 1000);
export const moment = (at) => `${DATE.format(at * 1000)}, ${clock(at)}`;

const UNITS = ["B", "KiB", "MiB", "GiB", "TiB"];

export const bytes = (value) => {
  if (!known(value)) return "–";
  const power = Math.min(UNITS.length - 1, Math.floor(Math.log2(Math.max(1, value)) / 10));
  return `${PRECISE.format(value / 1024 ** power)} ${UNITS[power]}`;
};

export const bits = (value) => SHORT.format(value).replace(/([A-Z]?)$/, " $1bit/s");

export const count = (number, one, many = `${one}s`) => `${WHOLE.format(number)} ${number === 1 ? one : many}`;

// The host of an address such as tcp://172.16.39.7:1883, or the address itself.
export const host = (address) => {
  const found = /^[a-z0-9+.-]+:\/\/(?:[^@/]*@)?(\[[^\]]*\]|[^:/;]+)/i.exec(address ?? "");
  return found ? found[1] : String(address ?? "");
};

const isMapping = (value) => known(value) && typeof value === "object" && !Array.isArray(value);

// The program of a query, which is stored as text; of any other field the value as it is.
const contentOf = (field, value) => {
  if (field !== "query" || !value?.program) return value ?? {};
  const { program, ...rest } = value;
  try {
    return { ...rest, ...JSON.parse(program) };
  } catch {
    return value;
  }
};

// A changed field as field, before, after; a mapping as each key that differs.
export const changedValues = ({ field, before, after }) => {
  if (!isMapping(before) && !isMapping(after)) return [{ field, before, after }];
  const [old, now] = [before, after].map((value) => contentOf(field, value));
  const keys = [...new Set([...Object.keys(old), ...Object.keys(now)])].sort();
  return keys
    .filter((key) => JSON.stringify(old[key]) !== JSON.stringify(now[key]))
    .map((key) => ({ field: `${field}.${key}`, before: old[key], after: now[key] }));
};

// A value of a field as text.
export const shown = (value) =>
  !known(value) ? "none" : typeof value === "object" ? JSON.stringify(value) : String(value);
