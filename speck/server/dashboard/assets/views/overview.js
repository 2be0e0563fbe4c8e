// A composition: in figures, as a graph, as a table, and one job of it in full.
import { MOST, MOST_UNFOLDED, canFold, folded } from "../folding.js";
import { GraphView } from "../graph.js";
import { html, useMemo, useState } from "../html.js";
import { keep, kept } from "../kept.js";
import { Empty, Fact } from "../parts.js";
import { jobLook, troubled } from "../states.js";
import { places } from "../topology.js";
import { named } from "../rest.js";
import { amount, count, known, rate } from "../words.js";
import { items, mayChange, now, world } from "../world.js";
import { FoldPanel, JobPanel, JobTable } from "./jobs.js";
import { OperationStrip } from "./operations.js";

const Figure = ({ name, value, note, tone }) => html`
  <div class="figure ${tone ? `tone-${tone}` : ""}"><dt>${name}</dt><dd>${value}</dd><dd class="quiet">${note}</dd></div>
`;

const total = (values) => {
  const all = values.filter(known);
  return all.length ? all.reduce((sum, value) => sum + value, 0) : null;
};

const Figures = ({ rows, sites }) => {
  const running = rows.filter(({ job }) => job.state === "running").length;
  const desired = rows.filter(({ job }) => job.wanted === "running").length;
  const wrong = rows.filter(({ job }) => troubled(job));
  const isBad = wrong.some(({ job }) => jobLook(job).tone === "bad");
  const tone = isBad ? "bad" : wrong.length || running < desired ? "warn" : "good";
  const reaches = sites.map((site) => world.kinds.reach.get(site)).filter(Boolean);
  const reached = reaches.filter((each) => each.broker.reached && each.engines.every((engine) => engine.reached || engine.stopped));
  const note = wrong.length ? `${wrong.length} ${wrong.length === 1 ? "needs" : "need"} attention` : running < desired ? `${desired - running} not running yet` : "all in the desired state";
  const waiting = total(rows.map(({ rates }) => rates?.waiting));
  return html`
    <dl class="figures">
      <${Figure} name="Jobs running" value="${running} / ${desired}" note=${note} tone=${tone} />
      <${Figure} name="Messages in" value=${rate(total(rows.map(({ rates }) => rates?.input_rate)))} note="read by all jobs" />
      <${Figure} name="Messages out" value=${rate(total(rows.map(({ rates }) => rates?.output_rate)))} note="written by all jobs" />
      <${Figure} name="Backlog" value=${amount(waiting)} note="messages not yet processed" />
      <${Figure} name="Sites" value=${reaches.length ? `${reached.length} / ${reaches.length}` : sites.length} note=${reaches.length ? (reached.length < reaches.length ? "some unreachable" : "all reachable") : world.kinds.site.size ? "not checked yet" : "no inventory"} tone=${reached.length < reaches.length ? "bad" : ""} />
    </dl>
  `;
};

const Wrong = ({ rows, onChoose }) => {
  const wrong = rows.filter(({ job }) => troubled(job));
  if (!wrong.length) return null;
  const few = wrong.slice(0, 6);
  return html`
    <section class="wrong" aria-label="Jobs that need attention">
      ${few.map(({ job }) => html`
        <button type="button" class="chip tone-${jobLook(job).tone}" onClick=${() => onChoose(job.job_name, true)}>
          <span aria-hidden="true">${jobLook(job).mark}</span> <strong>${job.job_name}</strong> ${jobLook(job).text}
        </button>
      `)}
      ${wrong.length > few.length && html`<span class="quiet">and ${wrong.length - few.length} more</span>`}
    </section>
  `;
};

const ENDS = { sources: "External sources", sinks: "External sinks" };

// The topics that the composition declares as its ends, with their descriptions.
const Declared = ({ declared }) => {
  const blocks = Object.entries(ENDS).filter(([name]) => declared?.[name]);
  if (!blocks.length) return null;
  return html`
    <section class="panel declared" aria-label="Declared topics">
      ${blocks.map(([name, title]) => html`
        <div>
          <h2>${title}</h2>
          <dl class="facts">${Object.entries(declared[name]).map(([topic, text]) => html`<${Fact} name=${html`<code>${topic}</code>`}>${text || "–"}<//>`)}</dl>
        </div>
      `)}
    </section>
  `;
};

const FOLD_KEY = "speck-fold";

// Whether the jobs of one template are shown as one: as the reader chose, otherwise where there are many.
const useFold = (rows) => {
  const [choice, setChoice] = useState(kept("localStorage", FOLD_KEY));
  const isPossible = canFold(rows);
  const isFixed = rows.length > MOST_UNFOLDED;
  const isFolded = isPossible && (isFixed || (choice ? choice === "yes" : rows.length > MOST));
  const turn = () => {
    const next = isFolded ? "no" : "yes";
    keep("localStorage", FOLD_KEY, next);
    setChoice(next);
  };
  const button = isPossible && !isFixed && html`
    <button type="button" id="fold" class="title-fold" aria-pressed=${isFolded ? "true" : "false"} title="Show the jobs of one for_each as a group, or separately" onClick=${turn}>${isFolded ? "Unfold" : "Fold"}</button>
  `;
  return { isFolded, button };
};

// The jobs of a composition (of all: null) with what is known of each.
const rowsOf = (name, place) =>
  items("job")
    .filter((job) => name === null || job.composition === name)
    .sort((one, other) => (one.job_name < other.job_name ? -1 : 1))
    .map((job) => ({
      job,
      rates: world.kinds.rate.get(job.job_name),
      site: job.job ? (job.job.site ?? place.engine(job.job.spe_address)) : "",
      observed: world.kinds.observed.get(job.job_name),
    }));

export const Overview = ({ name }) => {
  const [chosen, setChosen] = useState({ name: null, focus: false });
  const sites = items("site");
  const place = useMemo(() => places(sites), [world.kinds.site, sites.length]);
  const all = items("composition");
  if (world.loaded && !all.length) {
    return html`<${Empty} title="Nothing is deployed yet">
      ${mayChange()
        ? html`Paste a composition under <a href="#/change">Change</a>, review the plan and apply it, or run <code>speck apply FILE</code>.`
        : "Compositions that others deploy appear here. This token is read-only."}
    <//>`;
  }
  const rows = rowsOf(name, place);
  const onChoose = (job, focus = false) => setChosen({ name: job, focus });
  const { isFolded, button } = useFold(rows);
  const shown = isFolded ? folded(rows, sites) : { rows, sites };
  const isChosen = (each) => each.job.job_name === chosen.name;
  const row = shown.rows.find(isChosen) ?? rows.find(isChosen);
  const composition = world.kinds.composition.get(name);
  if (world.loaded && name !== null && !composition) {
    return html`<${Empty} title="Composition ${name} not found"><a href="#/graph">Show all compositions</a><//>`;
  }
  const here = [...new Set(rows.map((each) => each.site))];
  const close = () => {
    const focus = chosen.focus;
    setChosen({ name: null, focus: false });
    if (focus) document.querySelector(".job[tabindex='0']")?.focus({ preventScroll: true });
  };
  const what = `${count(rows.length, "job")} at ${count(here.length, "site")}`;
  return html`
    <div class="overview">
      <h1 class="title">
        ${name ?? "All compositions"}
        <span class="quiet">${composition ? `revision ${composition.revision} · ${what}` : what}${composition?.deleting ? " · being deleted" : ""}</span>
        ${button}
        ${composition && mayChange() && html`<a class="button title-end" href="#/delete/${named(name)}">Delete …</a>`}
      </h1>
      <${OperationStrip} composition=${name} />
      <${Figures} rows=${rows} sites=${here} />
      <${Wrong} rows=${rows} onChoose=${onChoose} />
      <div class="with-panel ${row ? "open" : ""}">
        <section class="panel" aria-label="Graph">
          <${GraphView}
            jobs=${shown.rows.map((each) => each.job).filter((job) => job.job)}
            sites=${shown.sites}
            reach=${world.kinds.reach}
            rates=${isFolded ? new Map(shown.rows.map((each) => [each.job.job_name, each.rates])) : world.kinds.rate}
            chosen=${row ? chosen.name : null}
            onChoose=${onChoose}
            least=${row ? 520 : 260}
            label="Graph of ${name ?? "all compositions"}: ${what}. Use the arrow keys to move between jobs and Enter to open one. The table below has the same information."
          />
        </section>
        ${row?.members && html`<${FoldPanel} key=${chosen.name} row=${row} focus=${chosen.focus} onChoose=${onChoose} onClose=${close} />`}
        ${row && !row.members && html`<${JobPanel} row=${row} now=${now()} focus=${chosen.focus} onClose=${close} />`}
      </div>
      <${Declared} declared=${composition?.declared} />
      <${JobTable} rows=${shown.rows} all=${rows} now=${now()} chosen=${chosen.name} onChoose=${onChoose} />
    </div>
  `;
};
