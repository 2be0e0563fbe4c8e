// Small pieces that several views use.
import { html, names, useEffect, useRef, useState } from "./html.js";
import { askForToken } from "./rest.js";
import { look } from "./states.js";
import { changedValues, shown } from "./words.js";
import { world } from "./world.js";

export const Badge = ({ table, word, text }) => {
  const { tone, mark, text: usual } = look(table, word);
  return html`<span class="badge tone-${tone}"><span class="badge-mark" aria-hidden="true">${mark}</span>${text ?? usual}</span>`;
};

// A dialog; `onClose` is called however it is closed.  The focus goes back to where it was, also when it is taken away.
export const Dialog = ({ title, onClose, children }) => {
  const element = useRef(null);
  useEffect(() => {
    const before = document.activeElement;
    element.current.showModal();
    return () => before.focus({ preventScroll: true });
  }, []);
  return html`
    <dialog ref=${element} aria-labelledby="dialog-title" onClose=${onClose}>
      <h2 id="dialog-title">${title}</h2>
      ${children}
    </dialog>
  `;
};

// What went wrong with a request: its message, and each fault of the input; `onLine` is told of a chosen line.
export const Trouble = ({ error, onLine }) => {
  if (!error) return null;
  const faults = error.faults ?? [];
  return html`
    <div class="trouble" role="alert">
      <strong>${faults.length ? `${error.message.split("\n")[0]}` : error.message}</strong>
      ${faults.length > 0 && html`
        <ul>
          ${faults.map((fault) => html`
            <li>
              ${fault.line && onLine
                ? html`<button type="button" class="link" onClick=${() => onLine(fault.line)}>line ${fault.line}</button> `
                : fault.line && `line ${fault.line}: `}
              ${fault.job && html`<code>${fault.job}</code>${" "}`}${fault.message}
            </li>
          `)}
        </ul>
      `}
    </div>
  `;
};

// Warnings: one is shown, several are counted and folded.
export const Warnings = ({ all }) => {
  if (!all.length) return null;
  if (all.length === 1) return html`<p class="notice tone-warn">${all[0]}</p>`;
  return html`
    <details class="notice tone-warn">
      <summary>${all.length} warnings</summary>
      <ul>${all.map((each) => html`<li>${each}</li>`)}</ul>
    </details>
  `;
};

const LINES = { "+": "added", "-": "removed" };

// Fields that differ, before and after, of a mapping its keys; the hash of the code says nothing to people.
export const Changes = ({ changes }) => html`
  <dl class="changes">
    ${changes.filter((each) => each.field !== "code_hash").flatMap(changedValues).map((each) => html`
      <div>
        <dt>${each.field}</dt>
        <dd>
          <del><span class="unseen">before: </span>${shown(each.before)}</del>
          <span class="arrow" aria-hidden="true">→</span>
          <ins><span class="unseen">after: </span>${shown(each.after)}</ins>
        </dd>
      </div>
    `)}
  </dl>
`;

// The change of a job's code: in words, and the lines that differ where the server sends them.
export const CodeChange = ({ code, inWords }) => code && html`
  <div class="code-change">
    ${inWords && html`<p class="quiet">${code.summary}</p>`}
    ${code.parts.filter((part) => part.diff?.length).map((part) => html`
      <pre aria-label="Lines of ${part.name}">${part.diff.map((line) => html`<span class=${LINES[line[0]] ?? ""}>${line}\n</span>`)}</pre>
    `)}
  </div>
`;

// What a request to the server brought, asked anew whenever `keys` change: data, error.
export const useAnswer = (ask, keys) => {
  const [answer, setAnswer] = useState({ data: null, error: null });
  useEffect(() => {
    let current = true;
    ask().then(
      (data) => current && setAnswer({ data, error: null }),
      (error) => current && setAnswer({ data: null, error }),
    );
    return () => {
      current = false;
    };
  }, keys);
  return answer;
};

// Why something is not offered to who may only read; `what` begins a sentence.
export const Reader = ({ what }) => html`
  <p class="notice tone-still reader">${what} requires a token with write access; ${world.owner?.name ? html`that of <strong>${world.owner.name}</strong>` : "this one"} is read-only. <button type="button" class="link" onClick=${askForToken}>Use another token</button></p>
`;

export const Empty = ({ title, children }) => html`
  <div class="empty"><h2>${title}</h2><p>${children}</p></div>
`;

export const Fact = ({ name, children, wide }) => html`
  <div class=${names("fact", wide && "wide")}><dt>${name}</dt><dd>${children}</dd></div>
`;

// How much of something is used, as a bar with its words.
export const Meter = ({ used, all, text }) => html`
  <span class="meter"><meter min="0" max=${all} value=${used} high=${all * 0.9} aria-label=${text}></meter><span>${text}</span></span>
`;
