// The last lines that a job's engine has of it, asked for on request.
import { html, useState } from "../html.js";
import { Trouble } from "../parts.js";
import { named, read } from "../rest.js";
import { count } from "../words.js";

const LINES = 200;

export const Log = ({ name }) => {
  const [answer, setAnswer] = useState(null);
  const ask = () => {
    setAnswer((before) => ({ ...before, asked: true }));
    read(`/jobs/${named(name)}/logs`, { lines: LINES }).then(
      (log) => setAnswer({ log }),
      (error) => setAnswer({ error }),
    );
  };
  const { log, error, asked } = answer ?? {};
  return html`
    <div class="ask">
      <button type="button" disabled=${asked} onClick=${ask}>${log ? "Read the log again" : "Read the log"}</button>
      <${Trouble} error=${error} />
      ${log && html`
        <p class="quiet words">${count(log.lines.length, "line")}: ${log.about}</p>
        ${log.lines.length > 0 && html`<pre class="log" tabindex="0" aria-label="Log of ${name}">${log.lines.join("\n")}</pre>`}
      `}
    </div>
  `;
};
