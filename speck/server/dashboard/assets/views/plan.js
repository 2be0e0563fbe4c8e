// A plan: its verdicts on the graph and in words, and a button to apply it.
import { MOST, folded } from "../folding.js";
import { GraphView } from "../graph.js";
import { html, useMemo, useState } from "../html.js";
import { Badge, Changes, CodeChange, Dialog, Reader, Trouble, Warnings } from "../parts.js";
import { VERDICTS } from "../states.js";
import { places } from "../topology.js";
import { count } from "../words.js";
import { PlannedWaves } from "../waves.js";
import { items } from "../world.js";

const KINDS = ["start", "stop", "update", "move", "keep"];
const NO_RATES = new Map();
const FEW = 4; // jobs of one template that are shown one by one
const NAMED = 12; // destroyed things that are named before the others are counted

const verdictJobs = (plan) => {
  const forms = new Map(plan.jobs.map((job) => [job.job_name, job]));
  return plan.actions.map((action) => ({
    job_name: action.job,
    job: forms.get(action.job),
    verdict: action.kind,
    detail: `${VERDICTS[action.kind].text}${action.kind === "move" ? ` from ${action.changes.find((each) => each.field === "site")?.before ?? "elsewhere"}` : ""}`,
  }));
};

// The kinds of the members of a folded row in words, and its own: the first that changes something.
const verdictOf = (members) => {
  const counts = Object.fromEntries(KINDS.map((kind) => [kind, members.filter(({ job }) => job.verdict === kind).length]));
  const found = KINDS.filter((kind) => counts[kind]);
  return { verdict: found[0], detail: found.map((kind) => `${counts[kind]} ${VERDICTS[kind].text}`).join(", ") };
};

// The jobs of a plan for the graph; many of one template as one.
const drawnJobs = (plan, sites) => {
  const jobs = verdictJobs(plan);
  if (jobs.length <= MOST) return { jobs, sites };
  const place = places(sites);
  const rows = jobs.filter(({ job }) => job).map((job) => ({ job, site: job.job.site ?? place.engine(job.job.spe_address) }));
  const shown = folded(rows, sites);
  return { jobs: shown.rows.map((row) => (row.members ? { ...row.job, ...verdictOf(row.members) } : row.job)), sites: shown.sites };
};

// The actions by template, those of a single job by themselves.
const inFolds = (actions) => {
  const found = new Map();
  for (const action of actions) {
    const key = action.template ? `${action.template} ${action.kind} ${action.reason}` : action.job;
    found.set(key, [...(found.get(key) ?? []), action]);
  }
  return [...found.values()];
};

const inWords = (counts) =>
  KINDS.filter((kind) => kind !== "keep" && counts[kind]).map((kind) => `${counts[kind]} to ${kind}`).join(", ");

const Counts = ({ counts }) => html`
  <ul class="counts" aria-label="Plan summary">
    ${KINDS.map((kind) => html`<li class=${counts[kind] ? "" : "none"}><${Badge} table=${VERDICTS} word=${kind} text="${counts[kind] ?? 0} ${kind}" /></li>`)}
  </ul>
`;

const Verdict = ({ action }) => html`
  <li class="action tone-${VERDICTS[action.kind].tone}">
    <div class="action-head"><${Badge} table=${VERDICTS} word=${action.kind} /><strong>${action.job}</strong><span class="quiet">${action.reason}</span></div>
    ${action.changes.length > 0 && html`<${Changes} changes=${action.changes} />`}
    <${CodeChange} code=${action.code} />
  </li>
`;

// What becomes of several jobs of one `for_each`; each of them is shown when it is opened.
const Folded = ({ actions }) => {
  const [open, setOpen] = useState(false);
  const [{ template, kind, reason }] = actions;
  return html`
    <li class="action tone-${VERDICTS[kind].tone}">
      <details onToggle=${(event) => setOpen(event.currentTarget.open)}>
        <summary><${Badge} table=${VERDICTS} word=${kind} /> <strong>${template}</strong> <span class="quiet">${count(actions.length, "job")}: ${reason}</span></summary>
        ${open && html`<${Verdicts} actions=${actions} folds=${false} />`}
      </details>
    </li>
  `;
};

const Verdicts = ({ actions, folds = true }) => html`
  <ul class="actions">
    ${(folds ? inFolds(actions) : actions.map((each) => [each])).map((each) =>
      each.length > FEW ? html`<${Folded} key=${each[0].job} actions=${each} />` : each.map((action) => html`<${Verdict} key=${action.job} action=${action} />`))}
  </ul>
`;

const Confirm = ({ plan, what, verb, settle, onApply, onClose }) => {
  const [state, setState] = useState({ busy: false, error: null });
  const apply = () => {
    setState({ busy: true, error: null });
    onApply().catch((error) => setState({ busy: false, error }));
  };
  const stale = state.error?.status === 409;
  const destroyed = plan.destroys;
  return html`
    <${Dialog} title="${what} ${plan.composition}?" onClose=${onClose}>
      <p>${inWords(plan.counts) || "No changes at any engine"}. ${plan.counts.keep > 0 ? `${count(plan.counts.keep, "job is", "jobs are")} unchanged.` : ""}</p>
      ${plan.waves?.length > 1 && html`<p>In ${count(plan.waves.length, "wave")}: each begins when all jobs of the previous one have been running for ${settle} s. If a wave fails, all jobs are rolled back to the previous revision.</p>`}
      ${destroyed.length > 0 && html`
        <ul class="notice tone-bad destroys" aria-label="Destroyed">
          ${destroyed.slice(0, NAMED).map((each) => html`<li><strong>${each.job}</strong> ${each.text}</li>`)}
          ${destroyed.length > NAMED && html`<li>and ${destroyed.length - NAMED} more</li>`}
        </ul>
      `}
      <${Trouble} error=${state.error} />
      ${stale && html`<p>The composition changed after this plan was made. Make a new plan.</p>`}
      <div class="row end">
        <button type="button" onClick=${onClose}>Back</button>
        <button type="button" class="main" disabled=${state.busy} onClick=${apply}>${state.busy ? "Sending …" : verb}</button>
      </div>
    <//>
  `;
};

// `what` is a verb ("Apply this to"), `verb` the word on the button that does it, `always` whether there is something to
// do though no job changes, `settle` the time for which the jobs of a wave must run, s, if there are waves; `onApply`
// asks for it and throws what goes wrong (null for who may only read).
export const PlanView = ({ plan, what, verb = "Apply", always = false, settle, onApply }) => {
  const [confirming, setConfirming] = useState(false);
  const [chosen, setChosen] = useState(null);
  const sites = items("site");
  const drawn = useMemo(() => drawnJobs(plan, sites), [plan, sites.length]);
  const changed = plan.actions.filter((each) => each.kind !== "keep");
  const kept = plan.actions.filter((each) => each.kind === "keep");
  const noted = kept.filter((each) => each.changes.length);
  const ones = plan.actions.filter((each) => chosen && [each.job, each.template].includes(chosen));
  return html`
    <section class="panel plan" aria-labelledby="plan-title">
      <header class="panel-head">
        <h2 id="plan-title" tabindex="-1">Plan for ${plan.composition} <span class="quiet">${plan.base_revision ? `from revision ${plan.base_revision}` : "new"}</span></h2>
        ${onApply && html`
          <button type="button" class="main" disabled=${!always && !changed.length && !noted.length} onClick=${() => setConfirming(true)}>
            ${always ? `${verb} …` : changed.length || noted.length ? `${verb} ${count(changed.length + noted.length, "change")} …` : "No changes"}
          </button>
        `}
      </header>
      <div class="pad">
        ${!onApply && html`<${Reader} what="Applying a plan" />`}
        <${Counts} counts=${plan.counts} />
        <${PlannedWaves} plan=${plan} />
        <${Warnings} all=${[...(plan.unreachable ?? []).map((each) => `${each.kind} ${each.address} ${each.refuses ? "cannot be used" : "is unreachable"}: ${each.jobs.join(", ")} waits until it is available (${each.error})`), ...(plan.warnings ?? []).map((each) => each.message)]} />
      </div>
      <${GraphView} jobs=${drawn.jobs} sites=${drawn.sites} rates=${NO_RATES} chosen=${chosen} onChoose=${(name) => setChosen(name)}
        label="Graph of the plan: ${inWords(plan.counts) || "no changes"}. The list below has the same information." />
      <div class="pad">
        ${ones.length > 0 && html`<${Verdicts} actions=${ones} />`}
        ${ones.length > 0 && html`<hr />`}
        <${Verdicts} actions=${[...changed, ...noted]} />
        ${kept.length > noted.length && html`
          <details><summary>${count(kept.length - noted.length, "job is unchanged", "jobs are unchanged")}</summary>
            <${Verdicts} actions=${kept.filter((each) => !each.changes.length)} />
          </details>
        `}
      </div>
      ${confirming && html`<${Confirm} plan=${plan} what=${what} verb=${verb} settle=${settle} onApply=${onApply} onClose=${() => setConfirming(false)} />`}
    </section>
  `;
};
