// The end of a composition: what would stop, and the way to have it deleted.
import { html, useState } from "../html.js";
import { Reader, Trouble, useAnswer } from "../parts.js";
import { change, named } from "../rest.js";
import { mayChange } from "../world.js";
import { PlanView } from "./plan.js";

const Planned = ({ name, go }) => {
  const path = `/compositions/${named(name)}`;
  const [round, setRound] = useState(0);
  const [message, setMessage] = useState("");
  const { data: plan, error } = useAnswer(() => change("DELETE", path, { dry_run: true }), [name, round]);
  const apply = async () => {
    const operation = await change("DELETE", path, { base_revision: plan.base_revision, message });
    go(`#/operations/${named(operation.id)}`);
  };
  return html`
    <section class="panel">
      <div class="pad">
        <p>All of its jobs are stopped, and their state and unprocessed messages are deleted. The history is kept: you can restore the composition from the list of deleted compositions.</p>
        <div class="row fields">
          <label class="grow"><span>Message (kept in the audit log)</span><input value=${message} maxlength="1000" onInput=${(event) => setMessage(event.target.value)} /></label>
          <button type="button" onClick=${() => setRound(round + 1)}>Plan again</button>
        </div>
        <${Trouble} error=${error} />
      </div>
    </section>
    ${!plan && !error && html`<p class="quiet pad">Loading …</p>`}
    ${plan && html`<${PlanView} plan=${plan} what="Delete" verb="Delete" always onApply=${apply} />`}
  `;
};

export const Remove = ({ name, go }) => html`
  <h1 class="title">Delete <span class="quiet">${name}</span></h1>
  ${mayChange() ? html`<${Planned} name=${name} go=${go} />` : html`<${Reader} what="Deleting a composition" />`}
`;
