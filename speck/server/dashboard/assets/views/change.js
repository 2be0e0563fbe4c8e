// A change: paste or pick a composition, look at its plan, apply it.
import { html, useEffect, useRef, useState } from "../html.js";
import { Reader, Trouble } from "../parts.js";
import { change, named } from "../rest.js";
import { mayChange } from "../world.js";
import { SETTLE, WavesChoice, wavesIn } from "../waves.js";
import { PlanView } from "./plan.js";

const NAME = /^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$/;
const YAML = "application/yaml";

const EMPTY = { text: "", name: "", message: "", code: [], waves: "", settle: String(SETTLE) };
const draft = { ...EMPTY }; // kept while other views are looked at
const CODE = /\bjob_path["']?\s*:\s*(?:"([^"\n]+)"|'([^'\n]+)'|([^\s,}#]+))/g;

const FORGOTTEN = [404, 410]; // the server has the plan, and its text, for a while only

const shownOf = (plan) => JSON.stringify([plan.waves, plan.actions.map(({ job, kind, changes, site }) => [job, kind, changes, site])]);

// What was shown is carried out: a server that has forgotten the plan makes another one, which must be the same.
const sent = async (query, rollout, plan, body) => {
  try {
    return await change("POST", "/compositions", { ...query, plan: plan.plan });
  } catch (error) {
    if (!FORGOTTEN.includes(error.status)) throw error;
  }
  const again = await change("POST", "/compositions", { ...query, ...rollout, dry_run: true }, body, YAML);
  if (shownOf(again) !== shownOf(plan)) throw new Error("The plan has changed since it was shown. Plan again.");
  return change("POST", "/compositions", { ...query, plan: again.plan });
};

// The `job_path` of a text that a file is the code of: the one that ends with the file's name.
const pathOf = (file, text) => {
  const paths = [...text.matchAll(CODE)].map((found) => found[1] ?? found[2] ?? found[3]);
  return paths.find((path) => path === file.name || path.endsWith(`/${file.name}`));
};

// The text, in a form with the code of its jobs if there is some.
const bodyOf = (text, code) => {
  const files = code.map((file) => [pathOf(file, text), file]).filter(([path]) => path);
  if (!files.length) return text;
  const form = new FormData();
  form.append("composition", text);
  for (const [path, file] of files) form.append(path, file);
  return form;
};

const stem = (file) => file.name.replace(/\.[^.]*$/, "");

export const Change = ({ go }) => {
  const [text, setText] = useState(draft.text);
  const [name, setName] = useState(draft.name);
  const [message, setMessage] = useState(draft.message);
  const [code, setCode] = useState(draft.code);
  const [waves, setWaves] = useState(draft.waves);
  const [settle, setSettle] = useState(draft.settle);
  const [state, setState] = useState({ plan: null, error: null, busy: false });
  const area = useRef(null);
  Object.assign(draft, { text, name, message, code, waves, settle });
  const rollout = wavesIn(waves).length ? { wave: wavesIn(waves), settle } : {};

  useEffect(() => {
    if (state.plan) document.getElementById("plan-title")?.focus();
  }, [state.plan]);

  const pick = async (file) => {
    if (!file) return;
    setText(await file.text());
    if (NAME.test(stem(file))) setName(stem(file));
    setState({ plan: null, error: null, busy: false });
  };
  const attach = async (files) => {
    const names = files.map((file) => file.name);
    // Copies: a browser refuses to send a file that was edited since.
    const copies = await Promise.all(files.map(async (file) => new File([await file.arrayBuffer()], file.name)));
    setCode([...code.filter((file) => !names.includes(file.name)), ...copies]);
    setState({ plan: null, error: null, busy: false });
  };
  const ask = async (event) => {
    event?.preventDefault();
    setState({ plan: null, error: null, busy: true });
    try {
      const plan = await change("POST", "/compositions", { name, ...rollout, dry_run: true }, bodyOf(text, code), YAML);
      setState({ plan, error: null, busy: false });
    } catch (error) {
      setState({ plan: null, error, busy: false });
    }
  };
  const apply = async () => {
    const query = { name, message, base_revision: state.plan.base_revision };
    const operation = await sent(query, rollout, state.plan, bodyOf(text, code));
    Object.assign(draft, EMPTY);
    go(`#/operations/${named(operation.id)}`);
  };
  const toLine = (line) => {
    const before = text.split("\n").slice(0, line - 1).join("\n").length + (line > 1 ? 1 : 0);
    const end = text.indexOf("\n", before);
    area.current.focus();
    area.current.setSelectionRange(before, end < 0 ? text.length : end);
    area.current.scrollTop = Math.max(0, (line - 4) * parseFloat(getComputedStyle(area.current).lineHeight));
  };
  // A plan is shown only beside what it was made from.
  const edit = (set) => (value) => {
    set(value);
    if (state.plan || state.error) setState({ plan: null, error: null, busy: false });
  };

  if (!mayChange()) return html`<h1 class="title">Change</h1><${Reader} what="Planning or applying a change" />`;
  return html`
    <h1 class="title">Change <span class="quiet">only the differences are applied</span></h1>
    <form class="panel" onSubmit=${ask}
      onDragOver=${(event) => event.preventDefault()}
      onDrop=${(event) => {
        event.preventDefault();
        pick(event.dataTransfer.files[0]);
      }}>
      <div class="pad">
        <div class="row">
          <label class="button file">Choose a file …
            <input type="file" accept=".yaml,.yml,.json" onChange=${(event) => {
              pick(event.target.files[0]);
              event.target.value = ""; // the same one may be picked again, changed
            }} />
          </label>
          <span class="quiet">or paste a composition in YAML or JSON</span>
        </div>
        <div class="row">
          <label class="button file">Add code …
            <input type="file" multiple accept=".py,.zip,.whl,.jar" onChange=${(event) => {
              attach([...event.target.files]);
              event.target.value = "";
            }} />
          </label>
          ${code.length ? code.map((file) => html`<span class="code-file" key=${file.name}>
              <code>${pathOf(file, text) ?? file.name}</code> ${pathOf(file, text) ? "" : "does not match any job_path; it will not be sent"}
              <button type="button" class="small" aria-label=${`Remove ${file.name}`} onClick=${() => setCode(code.filter((each) => each !== file))}>×</button>
            </span>`) : html`<span class="quiet">job files that the server does not have</span>`}
        </div>
        <label class="block"><span>Composition</span>
          <textarea ref=${area} rows=${state.plan ? 8 : 18} spellcheck="false" required value=${text} onInput=${(event) => edit(setText)(event.target.value)}
            placeholder=${"name: road-traffic\njobs:\n- job_name: clean\n  site: A\n  ..."}></textarea>
        </label>
        <${WavesChoice} waves=${waves} settle=${settle} onWaves=${edit(setWaves)} onSettle=${edit(setSettle)} />
        <div class="row fields">
          <label><span>Name (if not in the file)</span><input value=${name} pattern="[A-Za-z0-9][A-Za-z0-9._\\-]*" maxlength="100" onInput=${(event) => setName(event.target.value)} /></label>
          <label class="grow"><span>Message (kept in the history)</span><input value=${message} maxlength="1000" onInput=${(event) => setMessage(event.target.value)} /></label>
          <button type="submit" class=${state.plan ? "" : "main"} disabled=${state.busy || !text.trim()}>${state.busy ? "Planning …" : state.plan ? "Plan again" : "Plan"}</button>
        </div>
        <${Trouble} error=${state.error} onLine=${toLine} />
      </div>
    </form>
    ${state.plan && html`<${PlanView} plan=${state.plan} what="Apply to" settle=${settle} onApply=${apply} />`}
  `;
};
