// The audit log, newest first.
import { html, useState } from "../html.js";
import { named } from "../rest.js";
import { clock, day, moment } from "../words.js";
import { world } from "../world.js";

const TONES = {
  failed: "bad", skipped: "warn", succeeded: "good", started: "good", waiting: "warn", stopped: "still",
  drift: "warn", healed: "good", stray: "warn", "not reading": "bad", reading: "good",
  lost: "bad", "given up": "bad", suspect: "warn", "set aside": "warn",
  back: "warn", banned: "warn", fell: "warn", scaled: "good", "not scaled": "bad",
  "agent away": "warn", "agent back": "good", "second agent": "bad", joined: "good", revoked: "still", removed: "still",
  upgraded: "good", "not upgraded": "bad", restarted: "warn", "not restarted": "bad", ignored: "warn",
  "standby away": "bad", "standby back": "good",
};

// Kinds that are shown by a clearer word than the stored one (speck/core/lifecycle.py has the same).
const SHOWN = { stray: "orphan", left: "abandoned", "given up": "discarded", back: "reverted", fell: "paused to advice" };

const holds = (event, text) =>
  [event.kind, SHOWN[event.kind], event.message, event.composition, event.job, event.author, event.cause].some((each) =>
    String(each ?? "").toLowerCase().includes(text),
  );

const who = ({ author, cause }) => [author && `by ${author}`, cause].filter(Boolean).join(": ");

export const Events = () => {
  const [filter, setFilter] = useState("");
  const all = [...world.kinds.event.entries()].sort(([one], [other]) => (one < other ? 1 : -1));
  const found = all.filter(([, event]) => holds(event, filter.trim().toLowerCase()));
  const days = new Set(found.map(([, event]) => day(event.at)));
  return html`
    <h1 class="title">Events <span class="quiet">last ${all.length} entries of the audit log</span></h1>
    <section class="panel">
      <header class="panel-head">
        <h2 class="unseen">Audit log</h2>
        <input type="search" placeholder="Search the log" aria-label="Search the log" value=${filter} onInput=${(event) => setFilter(event.target.value)} />
      </header>
      <ol class="log" reversed>
        ${found.map(([key, event], index) => html`
          ${days.size > 1 && (index === 0 || day(event.at) !== day(found[index - 1][1].at)) && html`<li key="day ${key}" class="day">${day(event.at)}</li>`}
          <li key=${key}>
            <time datetime=${new Date(event.at * 1000).toISOString()} title=${moment(event.at)}>${clock(event.at)}</time>
            <span class="badge tone-${TONES[event.kind] ?? "still"}">${SHOWN[event.kind] ?? event.kind}</span>
            <span class="log-text">${event.message}${who(event) && html` <span class="quiet">${who(event)}</span>`}</span>
            ${event.operation ? html`<a href="#/operations/${named(event.operation)}">operation</a>` : html`<span></span>`}
          </li>
        `)}
      </ol>
      ${world.loaded && !found.length && html`<p class="quiet pad">No matching events.</p>`}
    </section>
  `;
};
