// Operations: those in progress, and one in full.
import { html, names, useEffect, useRef, useState } from "../html.js";
import { Badge, Changes, Empty, Trouble, Warnings, useAnswer } from "../parts.js";
import { named, read } from "../rest.js";
import { OPERATIONS, PROGRESS, VERDICTS } from "../states.js";
import { ago, count, moment, span } from "../words.js";
import { WaveList, waveInWords } from "../waves.js";
import { items, now, world } from "../world.js";

const ORDER = ["failed", "running", "waiting", "skipped", "pending", "done"];
const OVER = ["done", "failed", "skipped", "waiting"];
const PAGE = 24; // operations that are asked for at once
const LINGER = 12; // s, for which the end of an operation is shown on a composition's page

export const actionsOf = (id) =>
  [...world.kinds.action.entries()].filter(([key]) => key.startsWith(`${id} `)).map(([, action]) => action);

const counted = (actions) => {
  const found = {};
  for (const { state } of actions) found[state] = (found[state] ?? 0) + 1;
  return found;
};

// `counts` are the numbers of actions by state; unchanged jobs are not counted.
export const Progress = ({ counts }) => {
  const all = ORDER.reduce((sum, state) => sum + (counts[state] ?? 0), 0);
  const over = OVER.reduce((sum, state) => sum + (counts[state] ?? 0), 0);
  if (!all) return null;
  return html`
    <div class="progress" role="progressbar" aria-valuemin="0" aria-valuemax=${all} aria-valuenow=${over} aria-label="Progress">
      ${["done", "waiting", "skipped", "failed", "running"].map((state) => counts[state] && html`
        <span class="tone-${PROGRESS[state].tone} ${state}" style=${{ width: `${(100 * counts[state]) / all}%` }}></span>
      `)}
    </div>
  `;
};

const summary = (counts) => ORDER.filter((state) => counts[state]).map((state) => `${counts[state]} ${PROGRESS[state].text}`).join(", ");
const keptInWords = ({ kept = 0 }) => (kept > 0 ? ` · ${count(kept, "job")} unchanged` : "");

const lasted = (operation) => span((operation.ended ?? now()) - operation.started);

// The operation in progress on a composition (on any: null), or that ended just now.
export const OperationStrip = ({ composition }) => {
  const [hidden, setHidden] = useState(null);
  const mine = items("operation").filter((each) => composition === null || each.composition === composition);
  const last = mine.sort((one, other) => (one.id < other.id ? -1 : 1)).at(-1);
  if (!last || hidden === last.id) return null;
  const recent = last.state === "running" || last.state === "failed" || now() - last.ended < LINGER;
  if (!recent) return null;
  return html`
    <section class="strip tone-${OPERATIONS[last.state]?.tone}" aria-label="Operation">
      <${Badge} table=${OPERATIONS} word=${last.state} />
      <span class="strip-text"><strong>${last.kind}</strong> of ${last.composition}, revision ${last.revision}: ${[waveInWords(last), summary(last.counts) || "no changes"].filter(Boolean).join(" · ")}</span>
      <${Progress} counts=${last.counts} />
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
            <span class="quiet">${[action.wave, action.reason].filter(Boolean).join(" · ")}${action.started && action.ended ? ` · ${span(action.ended - action.started)}` : ""}</span>
          </div>
          ${action.error && html`<p class="notice tone-bad">${action.error}</p>`}
          ${action.note && html`<p class="notice tone-warn">${action.note}</p>`}
          ${action.changes.length > 0 && action.kind !== "stop" && html`<${Changes} changes=${action.changes} />`}
        </li>
      `)}
    </ul>
  `;
};

const Whole = ({ operation, actions, counts }) => html`
  <section class="panel">
    <header class="panel-head">
      <h2>${operation.kind} of <a href="#/graph/${named(operation.composition)}">${operation.composition}</a>, revision ${operation.revision}</h2>
      <${Badge} table=${OPERATIONS} word=${operation.state} />
    </header>
    <div class="pad">
      <p class="quiet">
        ${moment(operation.started)} · ${operation.state === "running" ? `running for ${lasted(operation)}` : `took ${lasted(operation)}`}
        ${operation.author && ` · by ${operation.author}`}${operation.message && ` · ${operation.message}`}
      </p>
      <${Progress} counts=${counts} />
      <p aria-live="polite">${summary(counts) || "No changes."}${keptInWords(counts)}</p>
      ${operation.error && html`<p class="notice tone-bad">${operation.error}</p>`}
      ${operation.replaced_by && html`<p class="notice tone-warn">Its revision was only partly applied; <a href="#/operations/${operation.replaced_by}">another operation</a> replaced it.</p>`}
      <${Warnings} all=${operation.warnings} />
      <${WaveList} operation=${operation} />
      <${ActionList} actions=${actions} />
    </div>
  </section>
`;

const Former = ({ id }) => {
  const { data, error } = useAnswer(() => read(`/operations/${named(id)}`), [id]);
  if (error) return html`<${Trouble} error=${error} />`;
  if (!data) return html`<p class="quiet pad">Loading …</p>`;
  const actions = data.actions.filter((each) => each.state !== "kept");
  return html`<${Whole} operation=${data} actions=${actions} counts=${counted(data.actions)} />`;
};

export const OperationView = ({ id }) => {
  const operation = world.kinds.operation.get(id);
  return html`
    <h1 class="title">Operation <span class="quiet">${id}</span></h1>
    ${operation
      ? html`<${Whole} operation=${operation} actions=${actionsOf(id)} counts=${operation.counts} />`
      : world.loaded && html`<${Former} key="${world.server} ${id}" id=${id} />`}
  `;
};

const Card = ({ operation }) => html`
  <li class="panel">
    <header class="panel-head">
      <h2><a href="#/operations/${operation.id}">${operation.kind} of ${operation.composition}, revision ${operation.revision}</a></h2>
      <${Badge} table=${OPERATIONS} word=${operation.state} />
    </header>
    <div class="pad">
      <${Progress} counts=${operation.counts} />
      <p>${summary(operation.counts) || "no changes"}${keptInWords(operation.counts)}</p>
      <p class="quiet"><span title=${moment(operation.started)}>${ago(operation.started, now())}</span> · ${lasted(operation)}${operation.author && ` · by ${operation.author}`}${operation.message && ` · ${operation.message}`}</p>
    </div>
  </li>
`;

const NOTHING = { known: new Map(), more: false, error: null, busy: false };

// What is known once a page of operations came: those before `before`, or the newest (undefined).
const withPage = (last, found, before) => {
  const joined = before !== undefined || found.length < PAGE || found.some((each) => last.known.has(each.id));
  const known = new Map([...(joined ? last.known : []), ...found.map((each) => [each.id, each])]);
  const told = before !== undefined || !joined || !last.known.size; // whether it tells if there are older ones
  return { known, more: told ? found.length === PAGE : last.more, error: null, busy: false };
};

// Those that the server keeps, from the newest on, as far back as was asked for.
const useKept = (composition, newest) => {
  const [state, setState] = useState(NOTHING);
  const asked = useRef(composition);
  const ask = (before) => {
    const set = (turn) => asked.current === composition && setState(turn);
    set((last) => ({ ...last, busy: true }));
    read("/operations", { composition, before, limit: PAGE }).then(
      (found) => set((last) => withPage(last, found, before)),
      (error) => set((last) => ({ ...last, error, busy: false })),
    );
  };
  useEffect(() => {
    if (asked.current !== composition) setState(NOTHING);
    asked.current = composition;
    ask();
  }, [composition, newest]);
  return { ...state, ask };
};

export const Operations = () => {
  const [composition, setComposition] = useState("");
  const live = items("operation");
  const newest = live.map((each) => each.id).sort().at(-1);
  const { known, more, error, busy, ask } = useKept(composition, newest);
  const all = new Map([...known, ...live.map((each) => [each.id, each])]);
  const shown = [...all.values()].filter((each) => !composition || each.composition === composition).sort((one, other) => (one.id < other.id ? 1 : -1));
  const compositions = items("composition").map((each) => each.name).sort();
  return html`
    <h1 class="title">Operations <span class="quiet">newest first</span></h1>
    ${compositions.length > 1 && html`
      <label class="row"><span>Composition</span>
        <select value=${composition} onChange=${(event) => setComposition(event.target.value)}>
          <option value="">All</option>
          ${compositions.map((name) => html`<option value=${name}>${name}</option>`)}
        </select>
      </label>
    `}
    <${Trouble} error=${error} />
    ${world.loaded && !busy && !shown.length && html`<${Empty} title="No operations yet">Applies, rollbacks, deletions and repairs are listed here.<//>`}
    <ul class="cards">${shown.map((each) => html`<${Card} key=${each.id} operation=${each} />`)}</ul>
    ${more && html`<div class="row"><button type="button" disabled=${busy} onClick=${() => ask(shown.at(-1).id)}>${busy ? "Loading …" : "Show older operations"}</button></div>`}
  `;
};
