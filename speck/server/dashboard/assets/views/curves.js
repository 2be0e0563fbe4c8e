// The last hour of a job as small curves: rates, backlog, and the time of a batch.
import { html, useEffect, useRef } from "../html.js";
import { Trouble, useAnswer } from "../parts.js";
import { named, read } from "../rest.js";
import { amount, known, rate, span } from "../words.js";

const PERIOD = 60; // s between two points
const HEIGHT = 74; // px

const CURVES = [
  { name: "Rates", text: rate, lines: [["In", "input_rate", "--accent"], ["Out", "output_rate", "--move"]] },
  { name: "Backlog", text: amount, lines: [["Backlog", "waiting", "--warn"]] },
  { name: "Batch", text: span, lines: [["Batch", "work_seconds", "--accent"]] },
];

// A canvas has no variables, and none of `light-dark`: the colour as the element would have it.
const colourAt = (element) => (name) => {
  element.style.color = `var(${name})`;
  const found = getComputedStyle(element).color;
  element.style.color = "";
  return found;
};

const extremes = (values, text) => {
  const found = values.filter(known);
  if (!found.length) return "unknown";
  return `${text(found.at(-1))} now, between ${text(Math.min(...found))} and ${text(Math.max(...found))}`;
};

const optionsOf = ({ text, lines }, width, colour) => ({
  width,
  height: HEIGHT,
  legend: { show: false },
  cursor: { show: false },
  padding: [6, 6, 0, 0],
  scales: { y: { range: (_, least, most) => [0, most > 0 ? most * 1.1 : 1] } },
  axes: [
    { size: 20, stroke: colour("--quiet"), font: "11px system-ui", grid: { show: false }, ticks: { show: false }, values: (_, all) => all.map((at) => new Date(at * 1000).toTimeString().slice(0, 5)), space: 70 },
    { size: 52, stroke: colour("--quiet"), font: "11px system-ui", grid: { stroke: colour("--border"), width: 1 }, ticks: { show: false }, values: (_, all) => all.map((value) => text(value)), space: 26 },
  ],
  series: [{}, ...lines.map(([, , name]) => ({ stroke: colour(name), width: 1.5, points: { show: false }, spanGaps: false }))],
});

const Curve = ({ curve, data }) => {
  const element = useRef(null);
  const times = data.input_rate.map((_, place) => data.until - data.interval * (data.input_rate.length - 1 - place));
  useEffect(() => {
    let [plot, left] = [null, false];
    // Loaded with the first curve: most visits need none.
    import("../vendor/uplot.js").then(({ default: Plot }) => {
      if (left) return;
      const options = optionsOf(curve, element.current.clientWidth, colourAt(element.current));
      plot = new Plot(options, [times, ...curve.lines.map(([, field]) => data[field])], element.current);
    });
    return () => {
      left = true;
      plot?.destroy();
    };
  }, [data]);
  const words = curve.lines.map(([name, field]) => `${name}: ${extremes(data[field], curve.text)}`).join("; ");
  return html`
    <figure class="curve">
      <figcaption>${curve.lines.map(([name, , tone]) => html`<span class="curve-name"><span class="curve-mark" style=${{ background: `var(${tone})` }} aria-hidden="true"></span>${name}</span>`)}</figcaption>
      <div ref=${element} role="img" aria-label="${words}, in the last hour"></div>
    </figure>
  `;
};

export const Curves = ({ name, now }) => {
  const { data, error } = useAnswer(() => read(`/jobs/${named(name)}/curves`), [name, Math.floor(now / PERIOD)]);
  if (error) return html`<${Trouble} error=${error} />`;
  if (!data) return null;
  const seen = CURVES.filter((curve) => curve.lines.some(([, field]) => data[field].filter(known).length > 1));
  return html`
    <section class="curves" aria-label="The last hour">
      ${seen.map((curve) => html`<${Curve} key=${curve.name} curve=${curve} data=${data} />`)}
      ${seen.length === 0 && html`<p class="quiet">Curves of the last hour appear after two minutes.</p>`}
    </section>
  `;
};
