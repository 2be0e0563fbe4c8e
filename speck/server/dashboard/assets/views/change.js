// A change: paste or pick a composition, look at its plan, apply it.
import { html, useEffect, useRef, useState } from "../html.js";
import { Reader, Trouble } from "../parts.js";
import { change, named } from "../rest.js";
import { mayChange } from "../world.js";
import { PlanView } from "./plan.js";

const NAME = /^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$/;
const YAML = "application/yaml";

const draft = { text: "", name: "", message: "" }; // kept while other views are looked at

const FORGOTTEN = [404, 410]; // the server has the plan, and its text, for a while only

// The text is sent again only to a server that has forgotten its plan.
const sent = async (query, plan, text) => {
  try {
    return await change("POST", "/compositions", { ...query, plan });
  } catch (error) {
    if (!FORGOTTEN.includes(error.status)) throw error;
    return change("POST", "/compositions", query, text, YAML);
  }
};

const stem = (file) => file.name.replace(/\.[^.]*$/, "");

export const Change = ({ go }) => {
  const [text, setText] = useState(draft.text);
  const [name, setName] = useState(draft.name);
  const [message, setMessage] = useState(draft.message);
  const [state, setState] = useState({ plan: null, error: null, busy: false });
  const area = useRef(null);
  Object.assign(draft, { text, name, message });

  useEffect(() => {
    if (state.plan) document.getElementById("plan-title")?.focus();
  }, [state.plan]);

  const pick = async (file) => {
    if (!file) return;
    setText(await file.text());
    if (NAME.test(stem(file))) setName(stem(file));
    setState({ plan: null, error: null, busy: false });
  };
  const ask = async (event) => {
    event?.preventDefault();
    setState({ plan: null, error: null, busy: true });
    try {
      const plan = await change("POST", "/compositions", { name, dry_run: true }, text, YAML);
      setState({ plan, error: null, busy: false });
    } catch (error) {
      setState({ plan: null, error, busy: false });
    }
  };
  const apply = async () => {
    const query = { name, message, base_revision: state.plan.base_revision };
    const operation = await sent(query, state.plan.plan, text);
    Object.assign(draft, { text: "", name: "", message: "" });
    go(`#/operations/${named(operation.id)}`);
  };
  const toLine = (line) => {
    const before = text.split("\n").slice(0, line - 1).join("\n").length + (line > 1 ? 1 : 0);
    const end = text.indexOf("\n", before);
    area.current.focus();
    area.current.setSelectionRange(before, end < 0 ? text.length : end);
    area.current.scrollTop = Math.max(0, (line - 4) * parseFloat(getComputedStyle(area.current).lineHeight));
  };
  const edit = (value) => {
    setText(value);
    if (state.plan || state.error) setState({ plan: null, error: null, busy: false });
  };

  if (!mayChange()) return html`<h1 class="title">Change</h1><${Reader} what="To plan or change something" />`;
  return html`
    <h1 class="title">Change <span class="quiet">what is applied is only what differs</span></h1>
    <form class="panel" onSubmit=${ask}
      onDragOver=${(event) => event.preventDefault()}
      onDrop=${(event) => {
        event.preventDefault();
        pick(event.dataTransfer.files[0]);
      }}>
      <div class="pad">
        <div class="row">
          <label class="button file">Pick a file …
            <input type="file" accept=".yaml,.yml,.json" onChange=${(event) => {
              pick(event.target.files[0]);
              event.target.value = ""; // the same one may be picked again, changed
            }} />
          </label>
          <span class="quiet">or paste a composition, in YAML or JSON</span>
        </div>
        <label class="block"><span>Composition</span>
          <textarea ref=${area} rows=${state.plan ? 8 : 18} spellcheck="false" required value=${text} onInput=${(event) => edit(event.target.value)}
            placeholder=${"name: road-traffic\njobs:\n- job_name: clean\n  site: A\n  ..."}></textarea>
        </label>
        <div class="row fields">
          <label><span>Name, where the text has none</span><input value=${name} pattern="[A-Za-z0-9][A-Za-z0-9._\\-]*" maxlength="100" onInput=${(event) => setName(event.target.value)} /></label>
          <label class="grow"><span>Why (kept in the history)</span><input value=${message} maxlength="1000" onInput=${(event) => setMessage(event.target.value)} /></label>
          <button type="submit" class=${state.plan ? "" : "main"} disabled=${state.busy || !text.trim()}>${state.busy ? "Planning …" : state.plan ? "Plan again" : "Plan"}</button>
        </div>
        <${Trouble} error=${state.error} onLine=${toLine} />
      </div>
    </form>
    ${state.plan && html`<${PlanView} plan=${state.plan} what="Apply this to" onApply=${apply} />`}
  `;
};
