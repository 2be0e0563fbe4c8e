// Changes that are made at some sites first, and at the others once the jobs of the first run.
import { html } from "./html.js";
import { Badge } from "./parts.js";
import { PROGRESS } from "./states.js";
import { count } from "./words.js";

export const SETTLE = 30; // s, unless the user gives another time

// The waves that a text names: `crossing-a; 10%` are two.
export const wavesIn = (text) => text.split(";").map((each) => each.trim()).filter(Boolean);

const LATER = { running: "pending", failed: "skipped" }; // the state of a wave that was not reached, by the operation's

const stateOf = (number, { wave, state, waits }) => {
  if (number < wave || state === "succeeded") return "done";
  if (number > wave) return LATER[state] ?? state;
  return waits ? "settling" : state;
};

// The waves of an operation, the last one included, each with its state and what it waits for; none without.
export const wavesOf = (operation) => {
  if (!operation.wave) return [];
  const named = operation.waves.map((each) => each.split(",").join(", "));
  return [...named, "all other sites"].map((sites, index) => {
    const state = stateOf(index + 1, operation);
    const former = state === "pending" && index === operation.wave && operation.waits;
    return { number: index + 1, sites, state, waits: former || "" };
  });
};

// Where an operation is: `wave 1 of 3`, or nothing for one without waves.
export const waveInWords = (operation) => {
  const all = wavesOf(operation);
  if (!all.length) return "";
  const { number, state } = all[operation.wave - 1];
  return `wave ${number} of ${all.length}${state === "settling" ? " settles" : ""}`;
};

export const WaveList = ({ operation }) => {
  const all = wavesOf(operation);
  if (!all.length) return null;
  return html`
    <ol class="waves" aria-label="Waves">
      ${all.map(({ number, sites, state, waits }) => html`
        <li key=${number}><${Badge} table=${PROGRESS} word=${state} /><span>wave ${number}: ${sites}</span>${waits && html`<span class="quiet">waits for wave ${operation.wave}: ${waits}</span>`}</li>
      `)}
    </ol>
  `;
};

// The waves of a plan, with the number of jobs that change in each.
export const PlannedWaves = ({ plan }) => {
  if (!plan.waves) return null;
  const changed = new Set(plan.actions.filter((each) => each.kind !== "keep").map((each) => each.job));
  return html`
    <ol class="waves" aria-label="Waves">
      ${plan.waves.map(({ number, sites, jobs }) => html`
        <li key=${number}><span>wave ${number}: ${sites.join(", ") || "outside the inventory"}</span><span class="quiet">${count(jobs.filter((each) => changed.has(each)).length, "job")} to change</span></li>
      `)}
    </ol>
  `;
};

// The choice of waves; `onWaves` and `onSettle` are given what the user types.
export const WavesChoice = ({ waves, settle, onWaves, onSettle }) => html`
  <div class="row fields">
    <label class="grow"><span>Waves (optional): sites to change first; a semicolon begins the next wave</span><input value=${waves} placeholder="crossing-a, crossing-b; 10%; 50%" onInput=${(event) => onWaves(event.target.value)} /></label>
    ${wavesIn(waves).length > 0 && html`<label><span>Settle time of a wave (s)</span><input type="number" min="0" max="3600" step="any" required value=${settle} onInput=${(event) => onSettle(event.target.value)} /></label>`}
  </div>
`;
