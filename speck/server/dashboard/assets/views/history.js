// The past of a composition: its revisions, what differs between two, and the way back to one.
import { html, useState } from "../html.js";
import { Badge, Changes, CodeChange, Empty, Reader, Trouble, useAnswer } from "../parts.js";
import { change, named, read } from "../rest.js";
import { REVISIONS } from "../states.js";
import { count, moment } from "../words.js";
import { mayChange, world } from "../world.js";
import { PlanView } from "./plan.js";

const KINDS = {
  added: { tone: "good", mark: "+", text: "added" },
  removed: { tone: "bad", mark: "−", text: "removed" },
  changed: { tone: "warn", mark: "~", text: "changed" },
};

const inWords = ({ added, removed, changed }) =>
  [added && `+${added}`, removed && `−${removed}`, changed && `~${changed}`].filter(Boolean).join(" ") || "no change";

const Difference = ({ name, before, after }) => {
  const { data, error } = useAnswer(() => read(`/compositions/${named(name)}/${mayChange() ? "code-diff" : "diff"}`, { before, after }), [name, before, after, world.server]);
  if (error) return html`<${Trouble} error=${error} />`;
  if (!data) return html`<p class="quiet">Loading …</p>`;
  return html`
    <ul class="actions">
      ${data.jobs.map((each) => html`
        <li key=${each.job} class="action tone-${KINDS[each.kind].tone}">
          <div class="action-head"><${Badge} table=${KINDS} word=${each.kind} /><strong>${each.job}</strong></div>
          ${each.kind === "changed" && html`<${Changes} changes=${each.changes} />`}
          <${CodeChange} code=${each.code} inWords=${true} />
        </li>
      `)}
      ${data.jobs.length === 0 && html`<li class="quiet">No differences.</li>`}
    </ul>
  `;
};

const Compare = ({ name, revisions }) => {
  const numbers = revisions.map((each) => each.number);
  const last = numbers.at(-1);
  const [pair, setPair] = useState({ before: numbers.at(-2) ?? 0, after: last });
  const select = (which, from) => html`
    <select aria-label=${which} value=${pair[which]} onChange=${(event) => setPair({ ...pair, [which]: Number(event.target.value) })}>
      ${from.map((number) => html`<option value=${number}>${number ? `revision ${number}` : "nothing"}</option>`)}
    </select>
  `;
  return html`
    <section class="panel" aria-labelledby="compare-title">
      <header class="panel-head">
        <h2 id="compare-title">Compare revisions</h2>
        <div class="row">${select("before", [0, ...numbers])}<span aria-hidden="true">→</span>${select("after", numbers)}</div>
      </header>
      <div class="pad"><${Difference} name=${name} before=${pair.before} after=${pair.after} /></div>
    </section>
  `;
};

const Deleted = ({ onBack }) => {
  const { data } = useAnswer(() => read("/deleted-compositions"), [world.server, [...world.kinds.composition.keys()].join(" ")]);
  if (!data?.length) return null;
  return html`
    <section class="panel" aria-labelledby="deleted-title">
      <header class="panel-head"><h2 id="deleted-title">Deleted compositions</h2></header>
      <ol class="revisions deleted">
        ${data.map((each) => html`
          <li key=${each.name}>
            <span class="revision">${each.revision}</span>
            <div>
              <div><strong>${each.name}</strong>${each.message && ` · ${each.message}`}</div>
              <div class="quiet">${moment(each.at)}${each.author && ` · ${each.author}`}</div>
            </div>
            ${mayChange() && html`<button type="button" onClick=${() => onBack(each)}>Restore …<span class="unseen"> (${each.name})</span></button>`}
          </li>
        `)}
      </ol>
    </section>
  `;
};

export const History = ({ name, go }) => {
  const composition = world.kinds.composition.get(name);
  const { data, error } = useAnswer(() => (name ? read(`/compositions/${named(name)}/revisions`) : Promise.resolve([])), [name, composition?.revision, composition?.operation, world.server]);
  const [back, setBack] = useState({ plan: null, error: null, number: null });
  const ask = async (number, of = name) => {
    try {
      const path = `/compositions/${named(of)}/rollback`;
      const plan = await change("POST", path, { revision: number, dry_run: true });
      setBack({ plan, error: null, number });
      requestAnimationFrame(() => document.getElementById("plan-title")?.focus());
    } catch (problem) {
      setBack({ plan: null, error: problem, number });
    }
  };
  const apply = async () => {
    const query = { revision: back.number, base_revision: back.plan.base_revision };
    const operation = await change("POST", `/compositions/${named(back.plan.composition)}/rollback`, query);
    go(`#/operations/${named(operation.id)}`);
  };
  const planned = back.plan && html`<${PlanView} plan=${back.plan} what="Roll back to revision ${back.number} of" onApply=${apply} />`;
  const deleted = html`<${Deleted} onBack=${(each) => ask(each.revision, each.name)} />`;
  if (!name) {
    return html`
      <${Empty} title="No composition">Nothing is deployed.<//>
      <${Trouble} error=${back.error} />
      ${planned}${deleted}
    `;
  }
  const revisions = data ?? [];
  return html`
    <h1 class="title">History <span class="quiet">of ${name}</span></h1>
    <${Trouble} error=${error ?? back.error} />
    ${!mayChange() && html`<${Reader} what="A rollback" />`}
    ${planned}
    <section class="panel">
      <ol class="revisions" reversed>
        ${[...revisions].reverse().map((each, index) => html`
          <li key=${each.number}>
            <span class="revision">${each.number}</span>
            <div>
              <div>
                ${each.message || html`<span class="quiet">no message</span>`}${" "}
                ${each.outcome && html`<${Badge} table=${REVISIONS} word=${each.outcome} text=${each.by ? `${each.outcome} by ${each.by}` : undefined} />`}
              </div>
              <div class="quiet">${moment(each.at)}${each.author && ` · ${each.author}`} · ${count(each.jobs, "job")} · ${inWords(each.changes)}</div>
            </div>
            ${index === 0
              ? html`<span class="quiet">current</span>`
              : mayChange() && html`<button type="button" onClick=${() => ask(each.number)}>Roll back …<span class="unseen"> (revision ${each.number})</span></button>`}
          </li>
        `)}
      </ol>
    </section>
    ${revisions.length > 0 && html`<${Compare} key="${name} ${revisions.at(-1).number}" name=${name} revisions=${revisions} />`}
    ${deleted}
  `;
};
