// The adaptation loop: its state, its decisions with their reasons, its steps, bans and links.
import { html, names, useState } from "../html.js";
import { Badge, Fact, Reader, Trouble, useAnswer } from "../parts.js";
import { change, named, read } from "../rest.js";
import { ADAPTATIONS, DECISIONS, OUTCOMES } from "../states.js";
import { ago, bits, clock, count, known, moment, span } from "../words.js";
import { items, mayChange, now, world } from "../world.js";

const PAUSES = [["3600", "1 hour"], ["21600", "6 hours"], ["86400", "1 day"], ["604800", "1 week"]];
const MODES = {
  auto: "auto: moves jobs automatically",
  advise: "advise: only recommends moves",
  off: "off: no advice",
};

const When = ({ at }) => html`<time datetime=${new Date(at * 1000).toISOString()} title=${moment(at)}>${clock(at)}</time>`;
const way = ({ jobs, source, target }) => html`<strong>${jobs.join(", ")}</strong> ${source} <span aria-hidden="true">→</span><span class="unseen"> to </span> ${target}`;
const operation = (id) => id && html`<a href="#/operations/${named(id)}">operation</a>`;

const Table = ({ caption, heads, children }) => html`
  <div class="scroll">
    <table class="table">
      <caption class="unseen">${caption}</caption>
      <thead><tr>${heads.map((each) => html`<th scope="col">${each}</th>`)}</tr></thead>
      <tbody>${children}</tbody>
    </table>
  </div>
`;

const Titled = ({ id, title, children }) => html`
  <section class="panel" aria-labelledby=${id}>
    <header class="panel-head"><h2 id=${id}>${title}</h2></header>
    ${children}
  </section>
`;

// --- decisions, steps, bans

const times = ({ repeated, since }) =>
  repeated > 1 && html` <span class="quiet">${count(repeated, "time")} since <${When} at=${since} /></span>`;

const Decisions = ({ entries }) => {
  if (!entries.length) return html`<p class="quiet pad">No decisions yet.</p>`;
  return html`
    <${Table} caption="The last decisions, newest first" heads=${["Time", "Decision", "Trigger", "Step", "Gain", "Reason"]}>
      ${entries.map((each) => html`
        <tr key=${each.since} class=${names(each.decision === "step" && "tone-move")}>
          <td><${When} at=${each.at} /></td>
          <td><${Badge} table=${DECISIONS} word=${each.decision} />${times(each)}</td>
          <td>${each.trigger}</td>
          <td>${each.target ? way(each) : ""} ${operation(each.operation)}</td>
          <td>${known(each.gain) ? `${Math.round(100 * each.gain)} %` : ""}</td>
          <td>${each.reason}</td>
        </tr>
      `)}
    <//>
  `;
};

const Steps = ({ steps }) => {
  if (!steps.length) return null;
  return html`
    <${Titled} id="steps-title" title="Steps of the last day">
      <${Table} caption="Steps, newest first" heads=${["Time", "Step", "Objective", "Outcome", "Revision"]}>
        ${steps.map((each) => html`
          <tr key=${each.at}>
            <td><${When} at=${each.at} /></td>
            <td>${way(each)} ${operation(each.operation)}${each.back && html` <span class="quiet">reverts a step</span>`}</td>
            <td>${known(each.objective) ? each.objective.toFixed(3) : "–"} → ${known(each.predicted) ? each.predicted.toFixed(3) : "–"}</td>
            <td><${Badge} table=${OUTCOMES} word=${each.outcome} />${each.windows > 0 && html` <span class="quiet">${each.good} of ${count(each.windows, "check")} passed</span>`}</td>
            <td>${each.revision || ""}</td>
          </tr>
        `)}
      <//>
    <//>
  `;
};

const Bans = ({ bans }) => {
  if (!bans.length) return null;
  return html`
    <${Titled} id="bans-title" title="Bans">
      <${Table} caption="Groups of jobs banned from a site" heads=${["Jobs", "Banned from", "Until", "Times", "Reason"]}>
        ${bans.map((each) => html`
          <tr key=${`${each.jobs} ${each.target}`}>
            <th scope="row">${each.jobs.join(", ")}</th><td>${each.target}</td>
            <td><${When} at=${each.until} /> <span class="quiet">in ${span(Math.max(0, each.until - now()))}</span></td><td>${each.times}</td><td>${each.reason}</td>
          </tr>
        `)}
      <//>
    <//>
  `;
};

// --- its state, and the way to pause it

const Pause = ({ name, paused, onData }) => {
  const [seconds, setSeconds] = useState(PAUSES[0][0]);
  const [state, setState] = useState({ error: null, busy: false });
  const ask = async (query) => {
    setState({ error: null, busy: true });
    try {
      onData(await change("POST", `/adapt/${named(name)}`, query));
      setState({ error: null, busy: false });
    } catch (error) {
      setState({ error, busy: false });
    }
  };
  return html`
    <div class="row fields pausing">
      <label><span>Pause for</span>
        <select value=${seconds} onChange=${(event) => setSeconds(event.target.value)}>${PAUSES.map(([value, text]) => html`<option value=${value}>${text}</option>`)}</select>
      </label>
      <button type="button" disabled=${state.busy} onClick=${() => ask({ pause: seconds })}>${paused ? "Extend pause" : "Pause"}</button>
      ${paused && html`<button type="button" class="main" disabled=${state.busy} onClick=${() => ask({ resume: true })}>Resume</button>`}
    </div>
    <${Trouble} error=${state.error} />
  `;
};

const State = ({ data }) => html`
  <dl class="facts">
    <${Fact} name="Mode">${MODES[data.mode] ?? data.mode}<//>
    <${Fact} name="Steps in the last hour">${data.steps_last_hour} of at most ${data.steps_per_hour}<//>
    <${Fact} name="Steps in the last day">${data.steps_last_day}<//>
    ${known(data.next) && html`<${Fact} name="Next decision"><${When} at=${data.next} /><//>`}
    ${known(data.paused_until) && html`<${Fact} name="Paused until"><${When} at=${data.paused_until} /> <span class="quiet">in ${span(Math.max(0, data.paused_until - now()))}</span><//>`}
    ${known(data.advises_until) && html`<${Fact} name="Advises only until"><${When} at=${data.advises_until} />: limit of steps reached<//>`}
  </dl>
`;

const Links = () => {
  const links = items("link");
  if (!links.length) return null;
  const value = (each, text) => (each ? html`${text(each.value)} <span class="quiet">${each.known}</span>` : "–");
  return html`
    <details class="panel kept"><summary class="pad">Links: ${count(links.length, "path")}</summary>
      <${Table} caption="Paths from the engines of a site to the broker of another" heads=${["From", "To", "Round trip", "Bandwidth", "Load", "Measured"]}>
        ${links.map((each) => html`
          <tr key=${`${each.source} ${each.target}`}>
            <th scope="row">${each.source}</th><td>${each.target}</td>
            <td>${value(each.round_trip, span)}</td>
            <td>${each.at_least ? "at least " : ""}${value(each.bandwidth, (bytes) => bits(8 * bytes))}</td>
            <td>${value(each.load, (bytes) => bits(8 * bytes))}</td>
            <td>${each.load?.until ? ago(each.load.until, now()) : "–"}</td>
          </tr>
        `)}
      <//>
    </details>
  `;
};

// The server tells when something was decided; the decisions themselves are asked for then.
export const Adaptation = ({ name }) => {
  const told = world.kinds.placement?.get(name);
  const [own, setOwn] = useState(null);
  const key = `${told?.state} ${told?.last?.at} ${told?.paused_until} ${told?.revision} ${own?.paused_until}`;
  const { data, error } = useAnswer(() => read(`/adapt/${named(name)}`), [name, key]);
  if (error) return html`<${Trouble} error=${error} />`;
  if (!data) return null;
  return html`
    <section class="panel" aria-labelledby="adaptation-title">
      <header class="panel-head"><h2 id="adaptation-title">Adaptation</h2> <${Badge} table=${ADAPTATIONS} word=${data.state} /></header>
      <div class="pad">
        <${State} data=${data} />
        ${data.mode === "auto" && (mayChange() ? html`<${Pause} name=${name} paused=${known(data.paused_until)} onData=${setOwn} />` : html`<${Reader} what="Pausing" />`)}
      </div>
    </section>
    <${Titled} id="decisions-title" title="Decisions"><${Decisions} entries=${data.entries} /><//>
    <${Steps} steps=${data.steps} />
    <${Bans} bans=${data.bans} />
    <${Links} />
  `;
};
