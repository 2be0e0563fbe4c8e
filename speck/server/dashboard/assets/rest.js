// The REST interface: requests, their errors, and the stream of what changes.
import { keep, kept } from "./kept.js";
import { createParser } from "./vendor/eventsource-parser.js";

const KEPT = "speck-token";
const SILENCE = 30_000; // ms; the server says something every 10 s
const PATIENCE = 60_000; // ms, for an answer; the server may have to ask an engine

export class Refusal extends Error {
  // `status` is that of HTTP (0: no answer), `faults` what is wrong with the input, where that is it.
  constructor(status, detail, faults = []) {
    super(detail);
    this.status = status;
    this.faults = faults;
  }
}

let token = kept("sessionStorage", KEPT) ?? "";
let onToken = () => {};

export const hasToken = () => token !== "";
export const whenRefused = (action) => {
  onToken = action;
};
export const askForToken = () => onToken(false);
export const setToken = (value) => {
  token = value;
  keep("sessionStorage", KEPT, value);
};

const headersOf = (more) => ({
  ...(token ? { Authorization: `Bearer ${token}` } : {}),
  ...more,
});

const refusalOf = async (answer) => {
  const body = await answer.json().catch(() => ({}));
  if (answer.status === 401) onToken(hasToken());
  return new Refusal(answer.status, body.detail ?? answer.statusText, body.faults ?? []);
};

const fetched = async (path, options) => {
  try {
    return await fetch(path, { credentials: "omit", cache: "no-store", ...options });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Refusal(0, "the server does not respond");
  }
};

const withQuery = (path, query) => {
  const all = Object.entries(query).flatMap(([name, value]) => (Array.isArray(value) ? value.map((each) => [name, each]) : [[name, value]]));
  const given = all.filter(([, value]) => value !== "" && value !== null && value !== undefined);
  return given.length ? `${path}?${new URLSearchParams(given)}` : path;
};

// `onDate` is given the time that the server says it is, s; whole seconds.
export const read = async (path, query = {}, onDate = () => {}) => {
  const signal = AbortSignal.timeout(PATIENCE);
  const answer = await fetched(withQuery(path, query), { headers: headersOf({}), signal });
  if (!answer.ok) throw await refusalOf(answer);
  const date = Date.parse(answer.headers.get("Date") ?? "");
  if (!Number.isNaN(date)) onDate(date / 1000);
  return answer.json();
};

// The type of the body and the extra header keep other pages from sending this in a visitor's name.  A form has a type
// that the browser completes.
export const change = async (method, path, query = {}, body = "", type = "application/json") => {
  const typed = body instanceof FormData ? {} : { "Content-Type": type };
  const headers = headersOf({ ...typed, "X-Requested-By": "speck" });
  const answer = await fetched(withQuery(path, query), { method, headers, body: body || undefined });
  if (!answer.ok) throw await refusalOf(answer);
  return answer.json();
};

// A stream of events until it ends or falls silent (for `silence` ms); `onData` is given the data of each.  Answers the
// last id.
export const stream = async (path, last, onData, signal, silence = SILENCE) => {
  const silent = new AbortController();
  const end = () => silent.abort();
  signal.addEventListener("abort", end);
  if (signal.aborted) end(); // it tells that only once
  let timer = setTimeout(end, silence);
  let id = last;
  try {
    const headers = headersOf(last ? { "Last-Event-ID": last } : {});
    const answer = await fetched(path, { headers, signal: silent.signal });
    if (!answer.ok) throw await refusalOf(answer);
    const parser = createParser({
      onEvent: (event) => {
        id = event.id ?? id;
        onData(JSON.parse(event.data), id);
      },
    });
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return id;
      clearTimeout(timer);
      timer = setTimeout(end, silence);
      parser.feed(value);
    }
  } finally {
    clearTimeout(timer);
    signal.removeEventListener("abort", end);
  }
};

export const named = (name) => encodeURIComponent(name);
