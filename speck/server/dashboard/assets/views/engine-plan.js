// The plan by which its engine executes a job, asked for on request: a table of operators, task by task.
import { html, useState } from "../html.js";
import { Trouble } from "../parts.js";
import { named, read } from "../rest.js";
import { count } from "../words.js";

const MOST = 200; // operators

const nameOf = (plan) => new Map(plan.nodes.map((node) => [node.id, node.name]));

const targetsOf = (plan) => {
  const names = nameOf(plan);
  const found = new Map();
  for (const edge of plan.edges) {
    const way = edge.strategy === "forward" ? "" : ` (${edge.strategy})`;
    found.set(edge.source, [...(found.get(edge.source) ?? []), `${names.get(edge.target)}${way}`]);
  }
  return found;
};

const Operators = ({ plan }) => {
  const targets = targetsOf(plan);
  return html`
    <table class="table engine-plan">
      <thead><tr><th>Operator</th><th>Class</th><th>Subtasks</th><th>Feeds</th></tr></thead>
      <tbody>
        ${plan.nodes.slice(0, MOST).map((node) => html`
          <tr key=${node.id} title=${node.description}>
            <th scope="row">${node.name}</th>
            <td>${node.kind}</td>
            <td>${node.parallelism ?? ""}</td>
            <td>${(targets.get(node.id) ?? []).join(", ")}</td>
          </tr>
        `)}
      </tbody>
    </table>
    ${plan.nodes.length > MOST && html`<p class="quiet">and ${plan.nodes.length - MOST} more</p>`}
  `;
};

export const EnginePlan = ({ name }) => {
  const [answer, setAnswer] = useState(null);
  const ask = () => {
    setAnswer((before) => ({ ...before, asked: true }));
    read(`/jobs/${named(name)}/engine-plan`).then(
      (plan) => setAnswer({ plan }),
      (error) => setAnswer({ error }),
    );
  };
  const { plan, error, asked } = answer ?? {};
  return html`
    <div class="ask">
      <button type="button" disabled=${asked} onClick=${ask}>${plan ? "Read the engine’s plan again" : "Read the engine’s plan"}</button>
      <${Trouble} error=${error} />
      ${plan && html`
        <p class="quiet words">${count(plan.nodes.length, "operator")} at ${plan.address}. ${plan.notes.join(" ")}</p>
        ${plan.nodes.length > 0 && html`<${Operators} plan=${plan} />`}
      `}
    </div>
  `;
};
