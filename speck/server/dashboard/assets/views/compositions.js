// All compositions, with their running jobs, rates and last operation.
import { html } from "../html.js";
import { Badge, Empty } from "../parts.js";
import { named } from "../rest.js";
import { OPERATIONS, jobLook, troubled } from "../states.js";
import { amount, known, rate } from "../words.js";
import { items, world } from "../world.js";

const total = (values) => {
  const all = values.filter(known);
  return all.length ? all.reduce((sum, value) => sum + value, 0) : null;
};

const grouped = (jobs) => {
  const found = new Map();
  for (const job of jobs) found.set(job.composition, [...(found.get(job.composition) ?? []), job]);
  return found;
};

const Row = ({ composition, jobs, operation }) => {
  const rates = jobs.map((job) => world.kinds.rate.get(job.job_name));
  const running = jobs.filter((job) => job.state === "running").length;
  const wrong = jobs.filter(troubled);
  const bad = wrong.some((job) => jobLook(job).tone === "bad");
  return html`
    <tr role="row">
      <th scope="row" role="rowheader" data-label="Composition"><a href="#/graph/${named(composition.name)}">${composition.name}</a></th>
      <td role="cell" data-label="Revision"><a href="#/history/${named(composition.name)}">${composition.revision}</a>${composition.deleting ? " (being deleted)" : ""}</td>
      <td role="cell" data-label="Running" class="number">${running} / ${composition.jobs}</td>
      <td role="cell" data-label="Attention">${wrong.length > 0 && html`<span class="badge tone-${bad ? "bad" : "warn"}"><span class="badge-mark" aria-hidden="true">${bad ? "✕" : "!"}</span>${wrong.length}</span>`}</td>
      <td role="cell" data-label="In" class="number">${rate(total(rates.map((each) => each?.input_rate)))}</td>
      <td role="cell" data-label="Out" class="number">${rate(total(rates.map((each) => each?.output_rate)))}</td>
      <td role="cell" data-label="Backlog" class="number">${amount(total(rates.map((each) => each?.waiting)))}</td>
      <td role="cell" data-label="Last operation">${operation && html`<a href="#/operations/${named(operation.id)}">${operation.kind}</a> <${Badge} table=${OPERATIONS} word=${operation.state} />`}</td>
    </tr>
  `;
};

export const Compositions = () => {
  const all = items("composition").sort((one, other) => (one.name < other.name ? -1 : 1));
  if (!all.length) return html`<${Empty} title="Nothing is deployed yet"><a href="#/change">Paste a composition</a><//>`;
  const jobs = grouped(items("job"));
  const operations = items("operation").sort((one, other) => other.started - one.started);
  return html`
    <section class="panel" aria-labelledby="compositions-title">
      <header class="panel-head"><h1 id="compositions-title" class="title">Compositions <span class="quiet">${all.length}</span></h1></header>
      <div class="scroll">
        <table role="table" class="jobs" aria-labelledby="compositions-title">
          <thead role="rowgroup"><tr role="row">
            ${["Composition", "Revision", "Running", "Attention", "In", "Out", "Backlog", "Last operation"].map((name) => html`<th scope="col" role="columnheader" class=${["Running", "In", "Out", "Backlog"].includes(name) && "number"}>${name}</th>`)}
          </tr></thead>
          <tbody role="rowgroup">
            ${all.map((composition) => html`<${Row}
              key=${composition.name}
              composition=${composition}
              jobs=${jobs.get(composition.name) ?? []}
              operation=${operations.find((each) => each.composition === composition.name)}
            />`)}
          </tbody>
        </table>
      </div>
    </section>
  `;
};
