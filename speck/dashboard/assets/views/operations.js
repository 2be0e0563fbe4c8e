// Operations: those at work with their progress, and one in full.
import { html, names, useState } from "../html.js";
import { Badge, Changes, Empty, Trouble, Warnings, useAnswer } from "../parts.js";
import { named, read } from "../rest.js";
import { OPERATIONS, PROGRESS, VERDICTS } from "../states.js";
import { ago, count, moment, span } from "../words.js";
import { items, now, world } from "../world.js";

const ORDER = ["failed", "running", "waiting", "skipped", "pending", "done", "kept"];
const OVER = ["done", "failed", "skipped", "waiting"];
const LINGER = 12; // s, for which the end of an operation is shown on a composition's page

export const actionsOf = (id) =>
  [...world.kinds.action.entries()].filter(([key]) => key.startsWith(`${id} `)).map(([, action]) => action);

const counted = (actions) => {
  const found = {};
  for (const { state } of actions) found[state] = (found[state] ?? 0) + 1;
  return found;
};

export const Progress = ({ actions }) => {
  const states = counted(actions.filter(({ state }) => state !== "kept"));
  const all = Object.values(states).reduce((sum, value) => sum + value, 0);
  const over = OVER.reduce((sum, state) => sum + (states[state] ?? 0), 0);
  if (!all) return null;
  return html`
    <div class="progress" role="progressbar" aria-valuemin="0" aria-valuemax=${all} aria-valuenow=${over} aria-label="Progress">
      ${["done", "waiting", "skipped", "failed", "running"].map((state) => states[state] && html`
        <span class="tone-${PROGRESS[state].tone} ${state}" style=${{ width: `${(100 * states[state]) / all}%` }}></span>
      `)}
    </div>
  `;
};

const summary = (actions) => {
  const states = counted(actions);
  return ORDER.filter((state) => states[state]).map((state) => `${states[state]} ${PROGRESS[state].text}`).join(", ");
};

const lasted = (operation) => span((operation.ended ?? now()) - operation.started);

// The operation at work on a composition (on any: null), or that ended just now.
export const OperationStrip = ({ composition }) => {
  const [hidden, setHidden] = useState(null);
  const mine = items("operation").filter((each) => composition === null || each.composition === composition);
  const last = mine.sort((one, other) => (one.id < other.id ? -1 : 1)).at(-1);
  if (!last || hidden === last.id) return null;
  const recent = last.state === "running" || last.state === "failed" || now() - last.ended < LINGER;
  if (!recent) return null;
  const actions = actionsOf(last.id);
  return html`
    <section class="strip tone-${OPERATIONS[last.state]?.tone}" aria-label="Operation">
      <${Badge} table=${OPERATIONS} word=${last.state} />
      <span class="strip-text"><strong>${last.kind}</strong> of ${last.composition}, revision ${last.revision}: ${summary(actions) || "nothing to do"}</span>
      <${Progress} actions=${actions} />
      <span class="quiet">${lasted(last)}</span>
      <a href="#/operations/${last.id}">Details</a>
      ${last.state !== "running" && html`<button type="button" class="icon" aria-label="Hide" onClick=${() => setHidden(last.id)}>✕</button>`}
    </section>
  `;
};

export const ActionList = ({ actions }) => {
  const ordered = [...actions].sort((one, other) => ORDER.indexOf(one.state) - ORDER.indexOf(other.state) || (one.job < other.job ? -1 : 1));
  return html`
    <ul class="actions">
      ${ordered.map((action) => html`
        <li key=${action.job} class=${names("action", `tone-${PROGRESS[action.state]?.tone}`)}>
          <div class="action-head">
            <${Badge} table=${PROGRESS} word=${action.state} />
            <${Badge} table=${VERDICTS} word=${action.kind} />
            <strong>${action.job}</strong>
            <span class="quiet">${action.reason}${action.started && action.ended ? ` · ${span(action.ended - action.started)}` : ""}</span>
          </div>
          ${action.error && html`<p class="notice tone-bad">${action.error}</p>`}
          ${action.note && html`<p class="notice tone-warn">${action.note}</p>`}
          ${action.changes.length > 0 && action.kind !== "stop" && html`<${Changes} changes=${action.changes} />`}
        </li>
      `)}
    </ul>
  `;
};

const Whole = ({ operation, actions, kept }) => html`
  <section class="panel">
    <header class="panel-head">
      <h2>${operation.kind} of <a href="#/graph/${named(operation.composition)}">${operation.composition}</a>, revision ${operation.revision}</h2>
      <${Badge} table=${OPERATIONS} word=${operation.state} />
    </header>
    <div class="pad">
      <p class="quiet">
        ${moment(operation.started)} · ${operation.state === "running" ? `at work for ${lasted(operation)}` : `took ${lasted(operation)}`}
        ${operation.author && ` · by ${operation.author}`}${operation.message && ` · ${operation.message}`}
      </p>
      <${Progress} actions=${actions} />
      <p aria-live="polite">${summary(actions) || "Nothing was to be done."}${kept > 0 && ` · ${count(kept, "job")} kept as they are`}</p>
      ${operation.error && html`<p class="notice tone-bad">${operation.error}</p>`}
      <${Warnings} all=${operation.warnings} />
      <${ActionList} actions=${actions} />
    </div>
  </section>
`;

const Former = ({ id }) => {
  const { data, error } = useAnswer(() => read(`/operations/${named(id)}`), [id]);
  if (error) return html`<${Trouble} error=${error} />`;
  if (!data) return html`<p class="quiet pad">Asking …</p>`;
  const actions = data.actions.filter((each) => each.state !== "kept");
  return html`<${Whole} operation=${data} actions=${actions} kept=${data.actions.length - actions.length} />`;
};

export const OperationView = ({ id }) => {
  const operation = world.kinds.operation.get(id);
  return html`
    <h1 class="title">Operation <span class="quiet">${id}</span></h1>
    ${operation
      ? html`<${Whole} operation=${operation} actions=${actionsOf(id)} kept=${operation.kept} />`
      : world.loaded && html`<${Former} key=${id} id=${id} />`}
  `;
};

export const Operations = () => {
  const all = items("operation").sort((one, other) => (one.id < other.id ? 1 : -1));
  return html`
    <h1 class="title">Operations <span class="quiet">the last ones since the server was started</span></h1>
    ${world.loaded && !all.length && html`<${Empty} title="None yet">What was done before stands under <a href="#/events">Events</a>.<//>`}
    <ul class="cards">
      ${all.map((each) => html`
        <li key=${each.id} class="panel">
          <header class="panel-head">
            <h2><a href="#/operations/${each.id}">${each.kind} of ${each.composition}, revision ${each.revision}</a></h2>
            <${Badge} table=${OPERATIONS} word=${each.state} />
          </header>
          <div class="pad">
            <${Progress} actions=${actionsOf(each.id)} />
            <p>${summary(actionsOf(each.id)) || "nothing to do"}</p>
            <p class="quiet">${ago(each.started, now())} · ${lasted(each)}${each.author && ` · by ${each.author}`}${each.message && ` · ${each.message}`}</p>
          </div>
        </li>
      `)}
    </ul>
  `;
};
