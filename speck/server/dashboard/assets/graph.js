// The graph as it is drawn: sites, topics, jobs, and the lines between them.
import Panzoom from "./vendor/panzoom.js";
import { html, names, steady, useEffect, useMemo, useRef, useState } from "./html.js";
import { laidOut } from "./layouter.js";
import { JOB, topicWidth } from "./sizes.js";
import { VERDICTS, jobLook } from "./states.js";
import { shapeOf, splitFrames, throughput, topology } from "./topology.js";
import { brief, count, known, rate } from "./words.js";

const NARROW = 640; // px
const FAR = 0.45; // the scale below which single jobs are not read any more
const NEAR = 0.8; // the scale below which text is drawn larger
const READABLE = 0.65; // the scale at which a chosen job is shown
const ASIDE = 12; // px between the graph and the edge of its frame
const LONG = 5; // screens; a graph on a narrow page that is longer than that has a frame of its own
const ZOOM = 44; // px; the buttons below the graph, and as much above it
const TAIL = 5; // letters at the end of a name that are kept
const CLICK = 4; // px; who moves more is dragging

// --- text that fits

const pen = document.createElement("canvas").getContext("2d");
const fitted = new Map();

const fit = (text, font, width, tail = 0) => {
  const key = `${font} ${width} ${tail} ${text}`;
  if (!fitted.has(key)) {
    if (fitted.size > 5000) fitted.clear();
    fitted.set(key, shortened(text, font, width, tail));
  }
  return fitted.get(key);
};

// Of a name the end is kept, by which the jobs of a split, or the topics of a query, differ.
const fitName = (text, font, width) => fit(text, font, width, TAIL);

const shortened = (text, font, width, tail) => {
  pen.font = font;
  if (pen.measureText(text).width <= width) return text;
  const end = tail && text.length > 2 * tail ? text.slice(-tail) : "";
  let length = text.length - end.length;
  while (length > 1 && pen.measureText(`${text.slice(0, length)}…${end}`).width > width) length -= 1;
  return `${text.slice(0, length)}…${end}`;
};

// As in graph.css; `letter` and `noteLetter` are the widths of a figure of a topic's rate, and of a site's note, px.
const FONTS = {
  near: {
    site: "700 15px system-ui, sans-serif",
    noteLetter: 6.5,
    name: "600 13px system-ui, sans-serif",
    detail: "11.5px system-ui, sans-serif",
    topic: "11px ui-monospace, monospace",
    letter: 6.7,
  },
  middle: {
    site: "700 19px system-ui, sans-serif",
    noteLetter: 8.1,
    name: "600 17px system-ui, sans-serif",
    detail: "15px system-ui, sans-serif",
    topic: "12px ui-monospace, monospace",
    letter: 7.3,
  },
};

// --- the pieces

const SiteBox = steady(({ box, title, note, tone, level }) => html`
  <g class=${names("site", tone && `tone-${tone}`)} transform="translate(${box.x} ${box.y})">
    <rect class="site-box" width=${box.width} height=${box.height} rx="14" />
    <text class="site-name" x="14" y="25">${fit(title, FONTS[level].site, box.width - 44 - FONTS[level].noteLetter * note.length)}</text>
    <text class="site-note" x=${box.width - 14} y="24" text-anchor="end">${note}</text>
  </g>
`);

// The jobs of a split by keys.
const SplitBox = steady(({ box, level }) => html`
  <g class="split" transform="translate(${box.x} ${box.y})">
    <rect width=${box.width} height=${box.height} rx="12" />
    <text x="10" y="13">${fit(`${box.split}: split`, FONTS[level].detail, box.width - 20)}</text>
  </g>
`);

const Line = steady(({ path, tone, weight, touched }) => html`
  <path class=${names("line", tone && `tone-${tone}`, `weight-${weight}`, touched && "touched")} d=${path} marker-end="url(#arrow)" />
`);

const Topic = steady(({ place, topic, through, near, level }) => {
  const width = topicWidth(topic);
  const flow = known(through) ? rate(through) : "";
  const room = width - 22 - flow.length * FONTS[level].letter - (flow ? 6 : 0);
  return html`
    <g class=${names("topic", near && "near", through > 0 && "flowing")} transform="translate(${place.x - width / 2} ${place.y - 12})">
      <title>${topic}${flow && `: ${flow}`}</title>
      <rect width=${width} height="24" rx="12" />
      <text class="topic-name" x="11" y="16">${fitName(topic, FONTS[level].topic, room)}</text>
      <text class="topic-rate" x=${width - 11} y="16" text-anchor="end">${flow}</text>
    </g>
  `;
});

const detailOf = (job, coming, waiting) => {
  if (job.verdict) return job.detail ?? "";
  if (job.fold) {
    const text = jobLook(job).tone === "good" ? known(coming) && `${rate(coming)} in` : jobLook(job).text;
    return [count(job.fold.count, "job"), text].filter(Boolean).join(" · ");
  }
  if (job.state !== "running") return jobLook(job).text + (job.waits ? `: ${job.waits}` : "");
  const parts = [];
  if (known(coming)) parts.push(`${rate(coming)} in`);
  if (waiting > 0) parts.push(`${brief(waiting)} queued`);
  return parts.join(" · ") || (job.drift ?? "running");
};

const spoken = (job, detail, group) =>
  [
    job.job_name,
    job.verdict ? VERDICTS[job.verdict].text : jobLook(job).text,
    `site ${group}`,
    job.verdict ? "" : detail,
  ]
    .filter(Boolean)
    .join(", ");

// `coming` and `waiting` are messages/s and messages.
const JobNode = steady(({ job, coming, waiting, place, group, near, chosen, stop, level }) => {
  const detail = detailOf(job, coming, waiting);
  const seen = job.verdict ? VERDICTS[job.verdict] : jobLook(job);
  const engine = level === "near" ? (job.job?.engine ?? job.engine ?? "") : "";
  const kind = names("job", `tone-${seen.tone}`, near && "near", chosen && "chosen", job.verdict && `verdict-${job.verdict}`);
  return html`
    <g
      class=${kind}
      transform="translate(${place.x - JOB.width / 2} ${place.y - JOB.height / 2})"
      role="button"
      tabindex=${stop ? 0 : -1}
      aria-label=${spoken(job, detail, group)}
      aria-pressed=${chosen ? "true" : "false"}
      data-job=${job.job_name}
    >
      <title>${job.job_name}</title>
      <rect class="ring" x="-4" y="-4" width=${JOB.width + 8} height=${JOB.height + 8} rx="13" />
      <rect class="card" width=${JOB.width} height=${JOB.height} rx="9" />
      <circle class="mark-ground" cx="18" cy="19" r="9" />
      <text class="mark" x="18" y="23.3" text-anchor="middle">${seen.mark}</text>
      <text class="job-name" x="33" y="23.3">${fitName(job.job_name, FONTS[level].name, JOB.width - 39)}</text>
      <text class="job-detail" x="12" y="42">${fit(detail, FONTS[level].detail, JOB.width - 22 - 6 * (engine.length + 1))}</text>
      <text class="job-engine" x=${JOB.width - 10} y="42" text-anchor="end">${engine}</text>
    </g>
  `;
});

// --- the whole

const weightOf = (through) => (through > 0 ? Math.min(4, 1 + Math.floor(Math.log10(Math.max(1, through)))) : 0);

// `jobs` is their number.
const noteOf = (jobs, reach) => {
  const number = count(jobs, "job");
  const slots = (reach?.engines ?? []).map((each) => each.capacity).filter((each) => known(each?.slots));
  if (reach && !reachedOf(reach)) return `${number} · unreachable`;
  if (!slots.length) return number;
  const sum = (field) => slots.reduce((total, each) => total + (each[field] ?? 0), 0);
  return `${number} · ${sum("slots") - sum("slots_free")} of ${sum("slots")} slots used`;
};

const reachedOf = (reach) => reach.broker.reached && reach.engines.every((each) => each.reached || each.stopped);

const nearest = (places, from, direction) => {
  const [dx, dy] = { ArrowRight: [1, 0], ArrowLeft: [-1, 0], ArrowDown: [0, 1], ArrowUp: [0, -1] }[direction];
  let best = null;
  let least = Infinity;
  for (const [name, at] of places) {
    const [x, y] = [at.x - from.x, at.y - from.y];
    const along = x * dx + y * dy;
    const cost = along + 2.5 * Math.abs(x * dy) + 2.5 * Math.abs(y * dx);
    if (along > 1 && cost < least) [best, least] = [name, cost];
  }
  return best;
};

const useWidth = (element) => {
  const [width, setWidth] = useState(0);
  useEffect(() => {
    const observer = new ResizeObserver(([entry]) => setWidth(Math.round(entry.contentRect.width)));
    observer.observe(element.current);
    return () => observer.disconnect();
  }, []);
  return width;
};

// The scale at which all is seen, and where it then lies.
const whole = (plan, width, height) => {
  const scale = Math.min(1.1, (width - 24) / plan.width, (height - 24) / plan.height);
  return { scale, x: (width - plan.width) / 2 / scale, y: (height - plan.height) / 2 / scale };
};

// As `whole`, but where that is too small to read, with a place in the middle, and nothing beyond the edges.
const showing = (plan, width, height, place) => {
  const all = whole(plan, width, height);
  if (!place || all.scale >= READABLE) return all;
  const shift = (at, size, frame) => {
    const half = frame / 2 / READABLE;
    const least = half - ASIDE / READABLE;
    const middle = 2 * least >= size ? size / 2 : Math.min(Math.max(at, least), size - least);
    return (frame - size) / 2 / READABLE - middle + size / 2;
  };
  return { scale: READABLE, x: shift(place.x, plan.width, width), y: shift(place.y, plan.height, height) };
};

const levelOf = (scale) => (scale < FAR ? "far" : scale < NEAR ? "middle" : "near");

const heightFor = (plan, width, least) => {
  const wanted = plan.height * Math.min(1.1, (width - 24) / Math.max(1, plan.width)) + 2 * ZOOM;
  return Math.round(Math.max(least, Math.min(wanted, window.innerHeight * 0.68)));
};

// Answers how far away it is seen, too; `chosen` is the place of a job to show, if there is one.
const useZoom = (frame, canvas, plan, width, narrow, least, chosen) => {
  const zoom = useRef(null);
  const shown = useRef(null);
  shown.current = chosen;
  const [level, setLevel] = useState("near");
  const fitAll = useRef(() => {});
  useEffect(() => {
    if (narrow || !width || !plan.width) return undefined;
    const height = heightFor(plan, width, least);
    // The elements themselves: panzoom tells of a change later, when the page may have left the graph.
    const [held, drawn] = [frame.current, canvas.current];
    held.style.height = `${height}px`;
    const fitting = whole(plan, width, height);
    const first = showing(plan, width, height, shown.current);
    const made = Panzoom(drawn, {
      canvas: true,
      minScale: Math.min(0.1, fitting.scale),
      maxScale: 3,
      step: 0.35,
      duration: 180,
      handleStartEvent: () => {},
      startScale: first.scale,
      startX: first.x,
      startY: first.y,
    });
    const see = (scale) => {
      held.dataset.level = levelOf(scale);
      held.style.setProperty("--scale", scale.toFixed(3));
      setLevel(levelOf(scale));
    };
    const tell = () => see(made.getScale());
    const turn = (event) => {
      if (event.ctrlKey || event.metaKey) made.zoomWithWheel(event);
    };
    fitAll.current = () => {
      made.zoom(fitting.scale, { animate: true });
      made.pan(fitting.x, fitting.y, { animate: true });
    };
    zoom.current = made;
    drawn.addEventListener("panzoomchange", tell);
    held.addEventListener("wheel", turn, { passive: false });
    see(first.scale);
    return () => {
      drawn.removeEventListener("panzoomchange", tell);
      held.removeEventListener("wheel", turn);
      made.destroy();
      made.resetStyle();
      drawn.style.transform = "";
      zoom.current = null;
    };
  }, [plan, width, narrow, least]);
  return { zoom, fitAll, level: narrow ? narrowLevel(plan, width) : level === "far" ? "near" : level };
};

const narrowLevel = (plan, width) => (plan.width && width / plan.width < NEAR ? "middle" : "near");

// On a narrow page all of it stands in the page, as wide as that is, and scrolls with it; unless it is so long that
// nobody would come to what is below it: then it scrolls by itself.
const useNarrow = (frame, canvas, plan, width, narrow) => {
  useEffect(() => {
    if (!narrow || !width || !plan.width) return undefined;
    const scale = Math.min(1, width / plan.width);
    const height = Math.ceil(plan.height * scale) + 8;
    const isLong = height > LONG * window.innerHeight;
    const [held, drawn] = [frame.current, canvas.current];
    held.style.height = `${isLong ? Math.round(window.innerHeight * 0.6) : height}px`;
    held.style.overflowY = isLong ? "auto" : "";
    held.dataset.level = narrowLevel(plan, width);
    held.style.setProperty("--scale", scale.toFixed(3));
    drawn.style.transform = `scale(${scale})`;
    drawn.style.transformOrigin = "0 0";
    return () => {
      drawn.style.transform = "";
      drawn.style.transformOrigin = "";
      held.style.overflowY = "";
    };
  }, [plan, width, narrow]);
};

// The focused job is brought into sight.
const reveal = (zoom, frame, element) => {
  if (frame.current.style.overflowY) {
    const [at, edge] = [element.getBoundingClientRect(), frame.current.getBoundingClientRect()];
    frame.current.scrollTop += at.top - edge.top - (edge.height - at.height) / 2;
  }
  if (!zoom.current) return;
  const [inner, outer] = [element.getBoundingClientRect(), frame.current.getBoundingClientRect()];
  const over = (low, high, least, most) => (low < least + 12 ? least + 12 - low : high > most - 12 ? most - 12 - high : 0);
  const x = over(inner.left, inner.right, outer.left, outer.right);
  const y = over(inner.top, inner.bottom, outer.top, outer.bottom);
  const scale = zoom.current.getScale();
  if (x || y) zoom.current.pan(x / scale, y / scale, { relative: true, animate: true });
};

const BLANK = { width: 0, height: 0, sites: [], places: new Map(), paths: new Map() };

// Everything's place, of the last shape that was laid out; while another is, the one before stays.
const usePlan = (graph, width, narrow) => {
  const [state, setState] = useState({ plan: BLANK, error: null });
  const shape = useMemo(() => shapeOf(graph), [graph]);
  const ratio = narrow ? 1 : Math.max(1.2, width / (window.innerHeight * 0.62));
  const wide = Math.round(ratio * 5) / 5;
  useEffect(() => {
    if (!width) return undefined;
    let current = true;
    laidOut(graph, { down: narrow, ratio: wide }).then(({ plan, error }) => {
      if (current) setState({ plan: plan ?? BLANK, error });
    });
    return () => {
      current = false;
    };
  }, [shape, narrow, wide, width > 0]);
  return state;
};

// `jobs` are jobs as GET /jobs has them, or those of a plan with their `verdict`; `rates` are by job name.
export const GraphView = ({ jobs, sites, reach, rates, chosen, onChoose, label, least = 260 }) => {
  const frame = useRef(null);
  const canvas = useRef(null);
  const pressed = useRef(null);
  const width = useWidth(frame);
  const narrow = width > 0 && width < NARROW;
  const graph = useMemo(() => topology(jobs.map((job) => job.job), sites), [jobs, sites]);
  const { plan, error } = usePlan(graph, width, narrow);
  const { zoom, fitAll, level } = useZoom(frame, canvas, plan, width, narrow, least, plan.places.get(`job ${chosen}`));
  useNarrow(frame, canvas, plan, width, narrow);
  const [stop, setStop] = useState(null);
  const byName = new Map(jobs.map((job) => [job.job_name, job]));
  const tabStop = byName.has(stop) ? stop : byName.has(chosen) ? chosen : jobs[0]?.job_name;

  const elementOf = (name) => [...canvas.current.querySelectorAll("[data-job]")].find((each) => each.dataset.job === name);
  useEffect(() => {
    const element = chosen && elementOf(chosen);
    if (element) reveal(zoom, frame, element);
  }, [chosen]);
  const jobPlaces = () => graph.jobs.map((node) => [node.name, plan.places.get(node.id)]).filter(([, at]) => at);
  const onKey = (event) => {
    const name = event.target.closest?.("[data-job]")?.dataset.job;
    if (!name) return;
    if (event.key === "Enter" || event.key === " ") onChoose(name, true);
    else if (event.key === "Escape") onChoose(null);
    else if (event.key.startsWith("Arrow")) {
      const places = jobPlaces();
      const next = nearest(places, plan.places.get(`job ${name}`), event.key);
      if (next) {
        setStop(next);
        const element = elementOf(next);
        element.focus({ preventScroll: true });
        reveal(zoom, frame, element);
      }
    } else return;
    event.preventDefault();
  };
  const onClick = (event) => {
    const start = pressed.current;
    if (start && Math.hypot(event.clientX - start.x, event.clientY - start.y) > CLICK) return;
    const name = event.target.closest?.("[data-job]")?.dataset.job ?? null;
    if (name) setStop(name);
    onChoose(name === chosen ? null : name);
  };

  const near = new Set();
  const touched = new Set();
  for (const edge of graph.edges) {
    const node = edge.from.kind === "job" ? edge.from : edge.to;
    const topic = edge.from.kind === "job" ? edge.to : edge.from;
    if (node.name !== chosen && ![...topic.readers, ...topic.writers].includes(chosen)) continue;
    near.add(node.name).add(topic.id);
    touched.add(edge.id);
  }
  const inSite = new Map();
  for (const node of graph.jobs) inSite.set(node.group, (inSite.get(node.group) ?? 0) + (byName.get(node.name)?.fold?.count ?? 1));
  const toneOf = (edge) => {
    const name = edge.from.kind === "job" ? edge.from.name : edge.to.name;
    const verdict = byName.get(name)?.verdict;
    return verdict && verdict !== "keep" ? VERDICTS[verdict].tone : "";
  };
  const flows = new Map(graph.topics.map((topic) => [topic.id, throughput(topic, rates)]));
  const placed = (node) => plan.places.get(node.id);

  return html`
    <div class="graph">
      ${error && html`<p class="notice tone-bad" role="alert">The graph cannot be drawn: ${error}</p>`}
      <div
        class="frame"
        ref=${frame}
        role="group"
        aria-label=${label}
        onKeyDown=${onKey}
        onPointerDownCapture=${(event) => {
          pressed.current = { x: event.clientX, y: event.clientY };
        }}
        onClick=${onClick}
      >
        <div class="canvas" ref=${canvas} style=${{ width: `${plan.width}px`, height: `${plan.height}px` }}>
          <svg class=${chosen && byName.has(chosen) ? "focused" : ""} width=${plan.width} height=${plan.height} viewBox="0 0 ${plan.width} ${plan.height}">
            <defs>
              <marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" markerUnits="userSpaceOnUse" orient="auto">
                <path d="M0 .8L7 4L0 7.2z" fill="context-stroke" />
              </marker>
            </defs>
            <g>
              ${plan.sites.map((box) => {
                const told = reach?.get(box.group);
                return html`<${SiteBox}
                  key=${box.group}
                  box=${box}
                  title=${box.group}
                  note=${noteOf(inSite.get(box.group) ?? 0, told)}
                  tone=${told && !reachedOf(told) ? "bad" : ""}
                  level=${level}
                />`;
              })}
            </g>
            <g>${splitFrames(graph, placed, JOB).map((box) => html`<${SplitBox} key=${box.key} box=${box} level=${level} />`)}</g>
            <g aria-hidden="true">
              ${graph.edges.filter((edge) => plan.paths.has(edge.id)).map((edge) => {
                const topic = edge.from.kind === "topic" ? edge.from : edge.to;
                return html`<${Line} key=${edge.id} path=${plan.paths.get(edge.id)} tone=${toneOf(edge)} weight=${weightOf(flows.get(topic.id))} touched=${touched.has(edge.id)} />`;
              })}
            </g>
            <g aria-hidden="true">
              ${graph.topics.map((topic) => placed(topic) && html`<${Topic} key=${topic.id} place=${placed(topic)} topic=${topic.topic} through=${flows.get(topic.id)} near=${near.has(topic.id)} level=${level} />`)}
            </g>
            <g>
              ${graph.jobs.map((node) => placed(node) && html`<${JobNode}
                key=${node.id}
                job=${byName.get(node.name)}
                coming=${rates.get(node.name)?.input_rate}
                waiting=${rates.get(node.name)?.waiting}
                place=${placed(node)}
                group=${node.group}
                near=${near.has(node.name)}
                chosen=${node.name === chosen}
                stop=${node.name === tabStop}
                level=${level}
              />`)}
            </g>
          </svg>
        </div>
      </div>
      ${!narrow && html`
        <div class="zoom" role="group" aria-label="Zoom">
          <button type="button" class="icon" aria-label="Zoom in" title="Zoom in (or Ctrl and the wheel)" onClick=${() => zoom.current?.zoomIn()}>+</button>
          <button type="button" class="icon" aria-label="Zoom out" title="Zoom out" onClick=${() => zoom.current?.zoomOut()}>−</button>
          <button type="button" class="icon" aria-label="Show all" title="Show all" onClick=${() => fitAll.current()}>⤢</button>
        </div>
      `}
    </div>
  `;
};
