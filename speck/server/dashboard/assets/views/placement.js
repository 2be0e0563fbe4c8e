// Recommended sites of jobs: the advice of a policy, with predicted figures, and a button to accept it.
import { html, names, useEffect, useState } from "../html.js";
import { Empty, Reader, Trouble, useAnswer } from "../parts.js";
import { change, named, read } from "../rest.js";
import { bytes, count, known, span } from "../words.js";
import { items, mayChange } from "../world.js";
import { Adaptation } from "./adaptation.js";
import { PlanView } from "./plan.js";

const DEFAULT = "speck";

const share = (value) => (known(value) ? `${Math.round(100 * value)} %` : "–");
const factor = (value) => (known(value) ? value.toFixed(1) : "no limit");
const toneOf = (value, target) => (value > 1 || value > 1.25 * target ? "bad" : value > target ? "warn" : "good");

// --- the figures, now and after

const busiest = (figures) =>
  ["site", "link"].map((kind) => {
    const { site, resource, share: used, target } = figures.busiest[kind];
    return `${kind} ${site} ${used.toFixed(2)} of ${target.toFixed(2)} (${resource})`;
  }).join(", ");

const ROWS = [
  ["Age of results, mean", (figures) => span(figures.age)],
  ["Age of results, 95th percentile", (figures) => span(figures.age_p95)],
  ["WAN", (figures) => `${bytes(figures.wan)}/s`],
  ["Cores, reference", (figures) => figures.cores.toFixed(2)],
  ["Busiest", busiest],
  ["Sustained multiplier", (figures) => `${factor(figures.multiplier)}${figures.bottleneck ? ` (${figures.bottleneck})` : ""}`],
];

const Figures = ({ figures: { now, after } }) => html`
  <div class="scroll">
    <table class="table">
      <caption class="unseen">Predicted figures, now and after</caption>
      <thead><tr><th scope="col">Predicted</th>${now && html`<th scope="col">now</th>`}<th scope="col">after</th></tr></thead>
      <tbody>
        ${ROWS.map(([name, text]) => html`<tr><th scope="row">${name}</th>${now && html`<td>${text(now)}</td>`}<td>${text(after)}</td></tr>`)}
      </tbody>
    </table>
  </div>
`;

// --- sites: a bar of each share, now and after, with its target

const RESOURCES = [["cores", "cores"], ["memory", "memory"], ["slots", "slots"], ["up", "link up"], ["down", "link down"]];

const Bar = ({ name, now, after, target }) => html`
  <div class="share" role="img" aria-label="${name}: ${known(now) ? `${share(now)} now, ` : ""}${share(after)} after, target ${share(target)}">
    <span class="share-name">${name}</span>
    <span class="share-track">
      ${known(now) && html`<span class="share-now" style="width: ${Math.min(100, 100 * now)}%"></span>`}
      <span class="share-after tone-${toneOf(after, target)}" style="width: ${Math.min(100, 100 * after)}%"></span>
      <span class="share-target" style="left: ${100 * target}%"></span>
    </span>
    <span class="share-text">${known(now) ? `${share(now)} → ` : ""}${share(after)}</span>
  </div>
`;

const Sites = ({ figures: { now, after } }) => html`
  <ul class="cards">
    ${after.sites.map((site) => {
      const before = now?.sites.find((each) => each.site === site.site);
      return html`
        <li class="panel" key=${site.site}>
          <header class="panel-head"><h2>${site.site}</h2></header>
          <div class="pad">
            ${RESOURCES.filter(([key]) => known(site[key])).map(([key, name]) => html`
              <${Bar} name=${name} now=${before?.[key]} after=${site[key]}
                target=${key === "cores" ? after.targets.cores : ["up", "down"].includes(key) ? after.targets.link : 1} />
            `)}
          </div>
        </li>
      `;
    })}
  </ul>
`;

// --- links: the uplink and downlink of each site; the width shows the utilization

const SIZE = 260; // px
const AWAY = 88; // px, from the middle to a site
const WIDEST = 12; // px

const Way = ({ place, angle, value, target, side }) => {
  const [x, y] = place;
  const [dx, dy] = [-Math.sin(angle) * 5 * side, Math.cos(angle) * 5 * side];
  const width = 1.5 + WIDEST * Math.min(1, value);
  return html`<line class="way tone-${toneOf(value, target)}" x1=${dx} y1=${dy} x2=${x + dx} y2=${y + dy} stroke-width=${width.toFixed(1)} />`;
};

const Star = ({ title, figures }) => html`
  <figure class="star">
    <svg viewBox="${-SIZE / 2} ${-SIZE / 2} ${SIZE} ${SIZE}" role="img"
      aria-label="${title}: ${figures.sites.map((each) => `link of ${each.site} ${share(each.up)} up, ${share(each.down)} down`).join("; ")}">
      ${figures.sites.map((site, index) => {
        const angle = (2 * Math.PI * index) / figures.sites.length - Math.PI / 2;
        const place = [AWAY * Math.cos(angle), AWAY * Math.sin(angle)];
        return html`
          <g key=${site.site}>
            <title>${site.site}: ${share(site.up)} up, ${share(site.down)} down</title>
            <${Way} place=${place} angle=${angle} value=${site.up} target=${figures.targets.link} side=${-1} />
            <${Way} place=${place} angle=${angle} value=${site.down} target=${figures.targets.link} side=${1} />
            <circle class="star-site" cx=${place[0]} cy=${place[1]} r="19" />
            <text class="star-name" x=${place[0]} y=${place[1] + 4} text-anchor="middle">${site.site.slice(0, 6)}</text>
          </g>
        `;
      })}
      <circle class="star-hub" r="16" /><text class="star-name" y="4" text-anchor="middle">WAN</text>
    </svg>
    <figcaption class="quiet">${title}: links, up and down; width shows utilization</figcaption>
  </figure>
`;

// --- reasons

const Verdicts = ({ verdicts }) => html`
  <div class="scroll">
    <table class="table">
      <caption class="unseen">Each job and its site</caption>
      <thead><tr><th scope="col">Job</th><th scope="col">Site</th><th scope="col">Why</th></tr></thead>
      <tbody>
        ${verdicts.map((each) => html`
          <tr key=${each.job} class=${names(each.from !== each.to && "tone-move")}>
            <th scope="row">${each.job}</th>
            <td>${known(each.from) && each.from !== each.to ? html`${each.from} <span aria-hidden="true">→</span><span class="unseen"> to </span> <strong>${each.to}</strong>` : each.to}</td>
            <td>${each.why}</td>
          </tr>
        `)}
      </tbody>
    </table>
  </div>
`;

const Steps = ({ proposal: { steps, cost } }) => {
  if (!steps.length) return null;
  return html`
    <ol class="plain steps">
      ${steps.map((step) => html`
        <li>${step.jobs.length
          ? html`<strong>${step.jobs.join(", ")}</strong> ${step.from} → ${step.to}: ${count(step.jobs.length, "job", "jobs")} down for ${span(step.standstill)}${step.state > 0 && `, ${bytes(step.state)} of state`}`
          : "Topics move to another broker"}${known(step.pays_after) ? `; break-even after ${span(step.pays_after)}` : ""}</li>
      `)}
    </ol>
    <p class="quiet">Total: ${count(cost.jobs, "job")} down, the longest for ${span(cost.standstill)}${cost.state > 0 ? `; ${bytes(cost.state)} of state` : ""}; ${known(cost.pays_after) ? `break-even after ${span(cost.pays_after)}` : "no break-even"}.</p>
  `;
};

const Known = ({ known_by: known_by }) => {
  const jobs = ["measured", "declared", "assumed"].filter((each) => known_by.jobs[each]).map((each) => `${known_by.jobs[each]} ${each}`);
  const links = known_by.links.filter((each) => each.known !== "measured");
  return html`
    <p class="quiet">Sources: jobs ${jobs.join(", ") || "none"}${known(known_by.oldest) ? ` (up to ${span(known_by.oldest)} ago)` : ""}${links.length > 0 ? `; ${links.map((each) => `link ${each.from}-${each.to} ${each.known}`).join(", ")}` : ""}.</p>
  `;
};

const Refused = ({ refused }) => {
  if (!refused.length) return null;
  return html`
    <details><summary>${count(refused.length, "site")} ruled out</summary>
      <ul class="plain">${refused.map((each) => html`<li><strong>${each.job}</strong> at ${each.site}: ${each.why}</li>`)}</ul>
    </details>
  `;
};

const Policies = ({ policies }) => {
  if (!policies.length) return null;
  return html`
    <section class="panel" aria-labelledby="policies-title">
      <header class="panel-head"><h2 id="policies-title">Policies compared</h2></header>
      <div class="scroll">
        <table class="table">
          <thead><tr><th scope="col">Policy</th><th scope="col">Objective</th><th scope="col">Age</th><th scope="col">WAN</th><th scope="col">Cores</th><th scope="col">Multiplier</th><th scope="col">Moves</th></tr></thead>
          <tbody>
            ${policies.map((each) => html`
              <tr key=${each.policy}><th scope="row">${each.policy}</th>
                ${each.figures
                  ? html`<td>${each.figures.objective.toFixed(3)}${each.figures.feasible ? "" : " (overloaded)"}</td><td>${span(each.figures.age)}</td><td>${bytes(each.figures.wan)}/s</td><td>${each.figures.cores.toFixed(2)}</td><td>${factor(each.figures.multiplier)}</td><td>${each.moves}</td>`
                  : html`<td colspan="6">${each.error}</td>`}
              </tr>
            `)}
          </tbody>
        </table>
      </div>
    </section>
  `;
};

// --- one proposal

const Proposal = ({ proposal, go }) => {
  const accept = async () => {
    const operation = await change("POST", `/placements/${named(proposal.id)}/accept`);
    go(`#/operations/${named(operation.id)}`);
  };
  const open = proposal.state === "open";
  const plan = { ...proposal.plan, jobs: proposal.jobs, warnings: proposal.warnings };
  return html`
    <section class="panel" aria-labelledby="advice-title">
      <header class="panel-head">
        <h2 id="advice-title" tabindex="-1">Placement ${proposal.id} <span class="quiet">policy ${proposal.policy}${known(proposal.gap) ? `, within ${(100 * proposal.gap).toFixed(1)} % of the optimum` : ""}</span></h2>
      </header>
      <div class="pad">
        ${!proposal.steps.length && html`<p class="notice tone-good">No better placement was found; all jobs stay where they are.</p>`}
        ${proposal.state === "accepted" && html`<p class="notice tone-still">This placement was <a href="#/operations/${named(proposal.operation)}">accepted</a>.</p>`}
        ${proposal.state === "expired" && html`<p class="notice tone-warn">This advice is more than 15 minutes old. Request it again.</p>`}
        <${Figures} figures=${proposal.figures} />
        <div class="row stars">
          ${proposal.figures.now && html`<${Star} title="Now" figures=${proposal.figures.now} />`}
          <${Star} title="After" figures=${proposal.figures.after} />
        </div>
        <${Steps} proposal=${proposal} />
        <${Known} known_by=${proposal.known_by} />
        <${Refused} refused=${proposal.refused} />
      </div>
    </section>
    <${Sites} figures=${proposal.figures} />
    <section class="panel" aria-labelledby="reasons-title">
      <header class="panel-head"><h2 id="reasons-title">Reasons</h2></header>
      <${Verdicts} verdicts=${proposal.verdicts} />
    </section>
    <${Policies} policies=${proposal.policies} />
    ${open && html`<${PlanView} plan=${plan} what="Accept the placement of" verb="Accept" onApply=${mayChange() ? accept : null} />`}
  `;
};

// --- the view

const options = (policies) =>
  policies.map((each) => html`<option value=${each.name}>${each.name}: ${each.about}</option>`);

const Advice = ({ name, go }) => {
  const policies = useAnswer(() => read("/policies"), []).data ?? [];
  const [policy, setPolicy] = useState("");
  const [compare, setCompare] = useState(false);
  const [state, setState] = useState({ proposal: null, error: null, busy: false });
  useEffect(() => {
    if (state.proposal) document.getElementById("advice-title")?.focus();
  }, [state.proposal]);
  const ask = async (event) => {
    event.preventDefault();
    setState({ proposal: null, error: null, busy: true });
    try {
      const proposal = await change("POST", "/placements", { composition: name, policy, compare: compare || "" });
      setState({ proposal, error: null, busy: false });
    } catch (error) {
      setState({ proposal: null, error, busy: false });
    }
  };
  return html`
    <form class="panel" onSubmit=${ask}>
      <div class="pad">
        <div class="row fields">
          <label><span>Policy</span>
            <select value=${policy} onChange=${(event) => setPolicy(event.target.value)}>
              <option value="">the composition's policy (${DEFAULT} by default)</option>
              ${options(policies.filter((each) => !each.comparison))}
              <optgroup label="For comparison">${options(policies.filter((each) => each.comparison))}</optgroup>
            </select>
          </label>
          <label class="check"><input type="checkbox" checked=${compare} onChange=${(event) => setCompare(event.target.checked)} /> compare all policies</label>
          <button type="submit" class="main" disabled=${state.busy}>${state.busy ? "Computing …" : "Advise"}</button>
        </div>
        <${Trouble} error=${state.error} />
      </div>
    </form>
    ${state.proposal && html`<${Proposal} proposal=${state.proposal} go=${go} />`}
  `;
};

const Kept = ({ go }) => {
  const { data, error } = useAnswer(() => read("/placements"), []);
  const [chosen, setChosen] = useState(null);
  if (error) return html`<${Trouble} error=${error} />`;
  if (!data?.length) return null;
  const one = data.find((each) => each.id === chosen);
  return html`
    <details class="panel kept"><summary class="pad">${count(data.length, "recent placement", "recent placements")}</summary>
      <ul class="pad plain">
        ${data.map((each) => html`<li key=${each.id}><button type="button" class="link" onClick=${() => setChosen(each.id)}>${each.id}</button> ${each.composition}, policy ${each.policy}, ${each.state}</li>`)}
      </ul>
    </details>
    ${one && html`<${Proposal} key=${one.id} proposal=${one} go=${go} />`}
  `;
};

export const PlacementView = ({ name, go }) => {
  const all = items("composition").map((each) => each.name).sort();
  const chosen = name ?? (all.length === 1 ? all[0] : null);
  if (!all.length) return html`<h1 class="title">Placement</h1><${Empty} title="Nothing is deployed yet">Apply a composition whose jobs may move: <code>site: any</code> or <code>sites: [A, D]</code>.<//>`;
  return html`
    <h1 class="title">Placement <span class="quiet">${chosen ?? "choose a composition"}</span></h1>
    ${!chosen && html`<ul class="cards">${all.map((each) => html`<li class="panel pad" key=${each}><a href="#/placement/${named(each)}">${each}</a></li>`)}</ul>`}
    ${chosen && (mayChange() ? html`<${Advice} key=${chosen} name=${chosen} go=${go} />` : html`<${Reader} what="Requesting advice" />`)}
    <${Kept} go=${go} />
    ${chosen && html`<${Adaptation} key=${`adapt ${chosen}`} name=${chosen} />`}
  `;
};
