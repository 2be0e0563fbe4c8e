// The jobs as a table, and one job in full.
import { membersOf } from "../folding.js";
import { html, names, steady, useEffect, useRef, useState } from "../html.js";
import { read, named } from "../rest.js";
import { alarms, jobLook, textsOf, troubled } from "../states.js";
import { Fact, Trouble } from "../parts.js";
import { Curves } from "./curves.js";
import { EnginePlan } from "./engine-plan.js";
import { Log } from "./log.js";
import { ago, amount, count, known, moment, rate, shown, span } from "../words.js";

export const StateOf = ({ job }) => {
  const { tone, mark, text } = jobLook(job);
  return html`<span class="badge tone-${tone}"><span class="badge-mark" aria-hidden="true">${mark}</span>${text}</span>`;
};

const SPLIT_PERIOD = 10; // s between two questions for a split that is open

const numeric = (value) => (known(value) ? value : -1);

const COLUMNS = [
  { key: "name", name: "Job", of: ({ job }) => job.job_name },
  { key: "state", name: "State", of: ({ job }) => `${troubled(job) ? 0 : 1}${jobLook(job).text}` },
  { key: "site", name: "Site", of: ({ site }) => site },
  { key: "reads", name: "Reads", of: ({ job }) => job.job?.source_topic ?? "" },
  { key: "writes", name: "Writes", of: ({ job }) => job.job?.sink_topic ?? "" },
  { key: "in", name: "In", number: true, of: ({ rates }) => numeric(rates?.input_rate) },
  { key: "out", name: "Out", number: true, of: ({ rates }) => numeric(rates?.output_rate) },
  { key: "waiting", name: "Backlog", title: "Messages not yet processed", number: true, of: ({ rates }) => numeric(rates?.waiting) },
  { key: "work", name: "Batch", title: "Last batch (Spark) or checkpoint (Flink)", number: true, of: ({ rates }) => numeric(rates?.work_seconds) },
  { key: "observed", name: "Observed", of: ({ observed }) => -(observed ?? 0) },
];

const Row = steady(({ job, rates, site, age, chosen, onChoose }) => html`
  <tr role="row" class=${names(chosen && "chosen")}>
    <th scope="row" role="rowheader" data-label="Job">
      <button type="button" class="link" aria-pressed=${chosen ? "true" : "false"} onClick=${() => onChoose(job.job_name, true)}>${job.job_name}</button>
    </th>
    <td role="cell" data-label="State"><${StateOf} job=${job} /></td>
    <td role="cell" data-label="Site">${site} <span class="quiet">${job.job?.engine}</span></td>
    <td role="cell" data-label="Reads"><code>${job.job?.source_topic}</code></td>
    <td role="cell" data-label="Writes"><code>${job.job?.sink_topic}</code></td>
    <td role="cell" data-label="In" class="number">${rate(rates?.input_rate)}</td>
    <td role="cell" data-label="Out" class="number">${rate(rates?.output_rate)}</td>
    <td role="cell" data-label="Backlog" class="number">${amount(rates?.waiting)}</td>
    <td role="cell" data-label="Batch" class="number">${span(rates?.work_seconds)}</td>
    <td role="cell" data-label="Observed" class="quiet">${age}</td>
  </tr>
`);

const sorted = (rows, { key, down }) => {
  const column = COLUMNS.find((each) => each.key === key);
  const order = (one, other) => (one < other ? -1 : one > other ? 1 : 0);
  const found = [...rows].sort((one, other) => order(column.of(one), column.of(other)));
  return down ? found.reverse() : found;
};

const holds = (row, text) =>
  [row.job.job_name, row.site, row.job.state, row.job.drift, row.job.job?.engine, row.job.job?.source_topic, row.job.job?.sink_topic]
    .some((each) => String(each ?? "").toLowerCase().includes(text));

const MOST_ROWS = 500; // more are found by their names
const MOST_MEMBERS = 60;

// `rows` are shown; among `all`, jobs that are shown as one by themselves, those are found that the reader asks for.
export const JobTable = ({ rows, all, now, chosen, onChoose }) => {
  const [order, setOrder] = useState({ key: "name", down: false });
  const [filter, setFilter] = useState("");
  const text = filter.trim().toLowerCase();
  const holding = text ? all.filter((row) => holds(row, text)) : rows;
  const found = sorted(holding, order);
  const turn = (column) =>
    setOrder({ key: column.key, down: order.key === column.key ? !order.down : Boolean(column.number) });
  return html`
    <section class="panel" aria-labelledby="jobs-title">
      <header class="panel-head">
        <h2 id="jobs-title">Jobs <span class="quiet">${text && found.length < all.length ? `${found.length} of ${all.length}` : all.length}</span></h2>
        <input type="search" placeholder="Find a job, site, topic or state" aria-label="Find a job, site, topic or state" value=${filter} onInput=${(event) => setFilter(event.target.value)} />
      </header>
      <div class="scroll">
        <table role="table" class="jobs" aria-labelledby="jobs-title">
          <thead role="rowgroup">
            <tr role="row">
              ${COLUMNS.map((column) => html`
                <th scope="col" role="columnheader" class=${column.number && "number"} aria-sort=${order.key === column.key ? (order.down ? "descending" : "ascending") : "none"}>
                  <button type="button" class="link" title=${column.title} onClick=${() => turn(column)}>
                    ${column.name}<span aria-hidden="true">${order.key === column.key ? (order.down ? " ↓" : " ↑") : ""}</span>
                  </button>
                </th>
              `)}
            </tr>
          </thead>
          <tbody role="rowgroup">
            ${found.slice(0, MOST_ROWS).map((row) => html`<${Row}
              key=${row.job.job_name}
              job=${row.job}
              rates=${row.rates}
              site=${row.site}
              age=${ago(row.observed, now)}
              chosen=${row.job.job_name === chosen}
              onChoose=${onChoose}
            />`)}
          </tbody>
        </table>
      </div>
      ${found.length > MOST_ROWS && html`<p class="quiet pad">Showing the first ${MOST_ROWS} of ${found.length} jobs; search to find the others.</p>`}
      ${found.length === 0 && html`<p class="quiet pad">No matching jobs.</p>`}
    </section>
  `;
};

const Metrics = ({ name }) => {
  const [answer, setAnswer] = useState(null);
  const ask = () => {
    setAnswer({ asked: true });
    read(`/jobs/${named(name)}`).then(
      (job) => setAnswer({ metrics: job.metrics ?? {} }),
      (error) => setAnswer({ error }),
    );
  };
  return html`
    <div class="ask">
      <button type="button" disabled=${answer?.asked} onClick=${ask}>Query the engine</button>
      <${Trouble} error=${answer?.error} />
      ${answer?.metrics && html`
        <dl class="facts">
          ${Object.entries(answer.metrics).filter(([, value]) => known(value) && typeof value !== "object").map(
            ([key, value]) => html`<${Fact} name=${key.replaceAll("_", " ")}>${key === "observed_at" ? moment(value) : shown(value)}<//>`,
          )}
          ${Object.keys(answer.metrics).length === 0 && html`<p class="quiet">The engine reports no metrics for this job.</p>`}
        </dl>
      `}
    </div>
  `;
};

const lossOf = (loss) => `${loss.at_least ? "at least " : ""}${loss.unit ? count(loss.count, loss.unit) : loss.count} ${loss.text}`;

// The split that a job is a part of, as its parts reported it; asked when it is opened, and again with each look.
const Split = ({ name, now }) => {
  const [open, setOpen] = useState(false);
  const [answer, setAnswer] = useState(null);
  useEffect(() => {
    if (open) read(`/splits/${named(name)}`).then((split) => setAnswer({ split }), (error) => setAnswer({ error }));
  }, [name, open, Math.floor(now / SPLIT_PERIOD)]);
  const { split, error } = answer ?? {};
  const metrics = split?.metrics;
  return html`
    <details class="split-fold" onToggle=${(event) => setOpen(event.currentTarget.open)}>
      <summary>Split ${name}</summary>
      <${Trouble} error=${error} />
      ${split && html`
        <dl class="facts">
          <${Fact} name="Routing">${split.partitioner}, ${split.weights} weights, ${count(split.workers, "combiner")}<//>
          <${Fact} name="Rows">${rate(metrics?.rows_per_second)}<//>
          <${Fact} name="Imbalance">${known(metrics?.imbalance) ? metrics.imbalance.toFixed(2) : "unknown"}<//>
          <${Fact} name="Keys">${known(metrics?.hot) ? `${metrics.hot} hot, ${metrics.true_hot} of them split, ${metrics.shared_keys} shared` : "unknown"}<//>
          ${metrics && html`<${Fact} name="Dropped">${count(metrics.late_rows, "late row")}, ${count(metrics.bad_rows, "bad row")}, ${count(metrics.lost_frames, "lost frame")}<//>`}
          ${known(metrics?.table_age_seconds) && html`<${Fact} name="Weights updated">${span(metrics.table_age_seconds)} ago<//>`}
          ${split.parts.map((part) => html`<${Fact} name=${part.job_name}>${rate(part.rows_per_second)}, busy ${known(part.busy_share) ? `${(100 * part.busy_share).toFixed(1)}%` : "unknown"}${known(part.number) && metrics?.weights.length > 0 && `, share ${(100 * metrics.weights[part.number]).toFixed(1)}%`}<//>`)}
        </dl>
      `}
    </details>
  `;
};

// The panel of a job, or of several; `focus` says that somebody opened it by keyboard, or from the table, and is to be led there.
const Panel = ({ name, focus, onClose, children }) => {
  const title = useRef(null);
  useEffect(() => {
    if (focus) title.current.focus();
  }, [name, focus]);
  return html`
    <aside class="panel job-panel" aria-labelledby="job-title" onKeyDown=${(event) => event.key === "Escape" && onClose()}>
      <header class="panel-head">
        <h2 id="job-title" tabindex="-1" ref=${title}>${name}</h2>
        <button type="button" class="icon" aria-label="Close" onClick=${onClose}>✕</button>
      </header>
      <div class="pad">${children}</div>
    </aside>
  `;
};

// The messages that the broker of a source has for a job, and the age of the oldest, where it counts them.
const AtTheBroker = ({ rates }) =>
  known(rates?.behind) && html`<${Fact} name="At the broker">${amount(rates.behind)}${rates.behind_seconds > 0 && ` (oldest: ${span(rates.behind_seconds)})`}<//>`;

// The jobs that one `for_each` made: those that need attention first, and a way to each of them.
export const FoldPanel = ({ row, focus, onChoose, onClose }) => {
  const [filter, setFilter] = useState("");
  const { job, rates } = row;
  const found = membersOf(row).filter((each) => holds(each, filter.trim().toLowerCase()));
  return html`
    <${Panel} name=${job.job_name} focus=${focus} onClose=${onClose}>
      <p class="states"><${StateOf} job=${job} /><span class="quiet">${count(job.fold.count, "job")} at ${row.site}</span></p>
      <dl class="numbers">
        <${Fact} name="In">${rate(rates.input_rate)}<//>
        <${Fact} name="Out">${rate(rates.output_rate)}<//>
        <${Fact} name="Backlog">${amount(rates.waiting)}<//>
        <${AtTheBroker} rates=${rates} />
      </dl>
      <input type="search" placeholder="Find a job, site or state" aria-label="Find a job, site or state of ${job.job_name}" value=${filter} onInput=${(event) => setFilter(event.target.value)} />
      <ul class="members">
        ${found.slice(0, MOST_MEMBERS).map((each) => html`
          <li key=${each.job.job_name}>
            <button type="button" class="link" onClick=${() => onChoose(each.job.job_name, true)}>${each.job.job_name}</button>
            <span class="quiet">${each.site}</span> <${StateOf} job=${each.job} />
          </li>
        `)}
      </ul>
      ${found.length > MOST_MEMBERS && html`<p class="quiet">and ${found.length - MOST_MEMBERS} more</p>`}
    <//>
  `;
};

// The code of a job; a query has none of its own.
const codeOf = ({ query, entry_class, job_path }) =>
  query?.program
    ? html`SQL query${query.of && html`, ${query.role} of <code>${query.of}</code>`}`
    : html`<code>${entry_class}</code> of <code>${job_path}</code>`;

export const JobPanel = ({ row, now, focus, onClose }) => {
  const { job, rates, site, observed } = row;
  const fields = job.job ?? {};
  const said = textsOf(job, rates);
  const kept = Object.entries(fields.arguments ?? {});
  const labels = Object.entries(fields.labels ?? {});
  return html`
    <${Panel} name=${job.job_name} focus=${focus} onClose=${onClose}>
      <p class="states">
        <${StateOf} job=${job} />
        <span class="quiet">desired: ${job.wanted}${job.up_to_date ? "" : " (update pending)"}</span>
      </p>
      ${job.drift && html`<p class="notice tone-warn"><strong>${job.drift}</strong>${said.has("drift_message") && `: ${job.drift_message}`}${known(job.drift_since) && `, since ${moment(job.drift_since)}`}</p>`}
      ${said.has("waits") && html`<p class="notice tone-warn">${job.waits}${known(job.next_try) && job.next_try > now ? ` (next attempt in ${span(job.next_try - now)})` : ""}</p>`}
      ${alarms(job).map((each) => html`<p class="notice tone-warn"><strong>${each.kind}</strong>: ${lossOf(each)}, last ${moment(each.last)}</p>`)}
      ${said.has("error") && html`<p class="notice tone-bad">${job.error}</p>`}
      ${said.has("message") && html`<p class="quiet words">${job.message}</p>`}
      <dl class="numbers">
        <${Fact} name="In">${rate(rates?.input_rate)}<//>
        <${Fact} name="Out">${rate(rates?.output_rate)}<//>
        <${Fact} name="Backlog">${amount(rates?.waiting)}<//>
        <${AtTheBroker} rates=${rates} />
        <${Fact} name=${fields.engine === "flink" ? "Checkpoint" : "Batch"}>${span(rates?.work_seconds)}<//>
      </dl>
      ${said.has("rates") && html`<p class="quiet words">${rates.error}</p>`}
      <${Curves} key=${job.job_name} name=${job.job_name} now=${now} />
      <dl class="facts">
        <${Fact} name="Composition"><a href="#/graph/${encodeURIComponent(job.composition)}">${job.composition}</a><//>
        <${Fact} name="Site">${site}<//>
        <${Fact} name="Engine">${fields.engine}, <code>${fields.spe_address}</code><//>
        <${Fact} name="Reads"><code>${fields.source_topic}</code> at <code>${fields.source_broker}</code><//>
        <${Fact} name="Writes"><code>${fields.sink_topic}</code> at <code>${fields.sink_broker}</code><//>
        <${Fact} name="Code">${codeOf(fields)}<//>
        ${kept.length > 0 && html`<${Fact} name="Arguments">${kept.map(([key, value]) => html`<div><code>${key}: ${shown(value)}</code></div>`)}<//>`}
        ${labels.length > 0 && html`<${Fact} name="Labels">${labels.map(([key, value]) => html`<div>${key}: ${value}</div>`)}<//>`}
        <${Fact} name="Attempt">${job.attempt ?? "none"}<//>
        <${Fact} name="Observed">${ago(observed, now)}<//>
        ${job.losses?.length > 0 && html`<${Fact} name="Losses and duplicates">${job.losses.map((each) => html`<div>${lossOf(each)}, ${ago(each.last, now)}</div>`)}<//>`}
        ${job.left_behind?.length > 0 && html`<${Fact} name="Abandoned copies">${job.left_behind.map((each) => html`<div>attempt ${each.attempt} at <code>${each.address}</code></div>`)}<//>`}
      </dl>
      ${fields.split?.of && html`<${Split} key=${fields.split.of} name=${fields.split.of} now=${now} />`}
      <${Metrics} key=${job.job_name} name=${job.job_name} />
      <${EnginePlan} key=${`plan ${job.job_name}`} name=${job.job_name} />
      <${Log} key=${`log ${job.job_name}`} name=${job.job_name} />
    <//>
  `;
};

