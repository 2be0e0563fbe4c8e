// Where everything is drawn: each site is laid out by itself, then the sites among themselves.  Sizes are px.
//
// In a site, what goes to or comes from other sites ends in a port at its edge, so that a line never goes through a
// job of its own site.  Data flows to the right, or downwards where there is little width (`down`).
import { JOB, TOPIC, topicWidth } from "./sizes.js";
import { Graph, layout as dagre } from "./vendor/dagre.js";

const PORT = { width: 1, height: 1 };
const TITLE = 38;
const FRAME = 16; // more of it where frames of splits reach above the jobs (topology.js)
const HEAD = { room: 270, letter: 11, most: 20 }; // what a site's name and the note beside it take
const EDGE = 14; // between a site's border and what is in it
const APART = { sites: 48, parts: 16, nodes: 12, ranks: 24 };
const MANY = 150; // nodes, from which on ranks are found the quick way
const END = "end";
const LANE = 12; // between sites and what flows back around them

const sizeOf = (node) =>
  node.kind === "job" ? JOB : { width: topicWidth(node.topic), height: TOPIC.height };

const grouped = (values, keyOf) => {
  const found = new Map();
  for (const value of values) {
    const key = keyOf(value);
    if (!found.has(key)) found.set(key, []);
    found.get(key).push(value);
  }
  return found;
};

// The connected parts of some nodes: lists of ids, in the order in which the ids came.
const partsOf = (ids, pairs) => {
  const above = new Map(ids.map((id) => [id, id]));
  const root = (id) => {
    let at = id;
    while (above.get(at) !== at) {
      above.set(at, above.get(above.get(at)));
      at = above.get(at);
    }
    return at;
  };
  for (const [one, other] of pairs) above.set(root(one), root(other));
  return [...grouped(ids, root).values()];
};

const ranked = (nodes, links, { down, apart }) => {
  const graph = new Graph();
  graph.setGraph({
    rankdir: down ? "TB" : "LR",
    nodesep: apart.nodes,
    ranksep: apart.ranks,
    edgesep: 10,
    ranker: nodes.length > MANY ? "longest-path" : "network-simplex",
  });
  graph.setDefaultEdgeLabel(() => ({}));
  for (const { id, width, height } of nodes) graph.setNode(id, { width, height });
  for (const { from, to, weight } of links) graph.setEdge(from, to, { weight });
  dagre(graph);
  return mirrored(graph, down ? "x" : "y");
};

// Dagre puts what comes first last; across the flow, everything may as well be the other way round.
const mirrored = (graph, axis) => {
  const whole = graph.graph()[axis === "x" ? "width" : "height"];
  const turn = (at) => {
    at[axis] = whole - at[axis];
  };
  for (const id of graph.nodes()) turn(graph.node(id));
  for (const edge of graph.edges()) graph.edge(edge).points.forEach(turn);
  return graph;
};

// Boxes one below the other, in as many columns as make the whole about `ratio` times as wide as high.
const packed = (boxes, gap, ratio) => {
  const area = boxes.reduce((sum, box) => sum + (box.width + gap) * (box.height + gap), 0);
  const tallest = Math.max(...boxes.map((box) => box.height));
  const limit = Math.max(tallest, ratio === 0 ? Infinity : Math.sqrt(area / ratio));
  let [x, y, widest, width, height] = [0, 0, 0, 0, 0];
  const placed = boxes.map((box) => {
    if (y > 0 && y + box.height > limit) [x, y, widest] = [x + widest + gap, 0, 0];
    const place = { ...box, x, y };
    y += box.height + gap;
    widest = Math.max(widest, box.width);
    [width, height] = [Math.max(width, x + box.width), Math.max(height, y - gap)];
    return place;
  });
  return { placed, width, height };
};

// --- one site

const portsOf = (edges, group) => {
  const links = [];
  const ports = new Set();
  for (const { from, to } of edges) {
    if (from.group === group && to.group === group) links.push({ from: from.id, to: to.id, weight: 2 });
    else if (from.group === group) {
      ports.add(`out ${from.id}`);
      links.push({ from: from.id, to: `out ${from.id}`, weight: 1 });
    } else if (to.group === group) {
      ports.add(`in ${to.id}`);
      links.push({ from: `in ${to.id}`, to: to.id, weight: 1 });
    }
  }
  return { links, ports: [...ports] };
};

// Ports that lead out lie as far as the farthest node, so that the way from there to the border is free.
const withEnd = (nodes, links) => {
  const out = nodes.filter(({ id }) => id.startsWith("out "));
  if (!out.length) return { nodes, links };
  const left = new Set(links.map(({ from }) => from));
  const last = nodes.filter(({ id }) => !left.has(id));
  const ends = last.map(({ id }) => ({ from: id, to: END, weight: id.startsWith("out ") ? 4 : 0 }));
  return { nodes: [...nodes, { id: END, ...PORT }], links: [...links, ...ends] };
};

const partLayout = (ids, known, links, options) => {
  const mine = new Set(ids);
  const inside = links.filter(({ from }) => mine.has(from));
  const plain = ids.map((id) => ({ id, ...(known.has(id) ? sizeOf(known.get(id)) : PORT) }));
  const ended = withEnd(plain, inside);
  const graph = ranked(ended.nodes, ended.links, { ...options, apart: APART });
  const places = ids.map((id) => [id, graph.node(id)]);
  const lines = inside.map(({ from, to }) => [`${from} > ${to}`, graph.edge(from, to).points]);
  const bounds = (axis, size, pick, sign) =>
    pick(...places.filter(([id]) => known.has(id)).map(([, at]) => at[axis] + (sign * at[size]) / 2));
  const left = bounds("x", "width", Math.min, -1);
  const top = bounds("y", "height", Math.min, -1);
  return {
    left,
    top,
    width: bounds("x", "width", Math.max, 1) - left,
    height: bounds("y", "height", Math.max, 1) - top,
    places,
    lines,
  };
};

// Parts that only take from other sites first, those that give to others last: their lines then pass no other part.
const inOrder = (parts) => {
  const turn = (part) => {
    const [takes, gives] = ["in ", "out "].map((start) => part.some((id) => id.startsWith(start)));
    return gives ? (takes ? 2 : 3) : takes ? 0 : 1;
  };
  return [...parts].sort((one, other) => turn(one) - turn(other));
};

const headWidth = (group) => HEAD.room + HEAD.letter * Math.min(HEAD.most, group.length);

const siteLayout = (group, nodes, edges, options) => {
  const known = new Map(nodes.map((node) => [node.id, node]));
  const { links, ports } = portsOf(edges, group);
  const ids = [...known.keys(), ...ports];
  const parts = partsOf(ids, links.map(({ from, to }) => [from, to]));
  const boxes = inOrder(parts).map((part) => partLayout(part, known, links, options));
  const { placed, width: inside, height } = packed(boxes, APART.parts, options.down ? 0 : 1.2);
  const width = Math.max(inside, headWidth(group) - 2 * EDGE);
  const aside = (width - inside) / 2;
  const title = TITLE + (nodes.some((node) => node.split) ? FRAME : 0);
  const places = new Map();
  const lines = new Map();
  const spans = new Map(); // where the part of each port begins and ends, along the flow
  for (const box of placed) {
    const [byX, byY] = [EDGE + aside + box.x - box.left, title + box.y - box.top];
    const low = options.down ? byY + box.top : byX + box.left;
    const span = { low, high: low + (options.down ? box.height : box.width) };
    for (const [id, at] of box.places) {
      places.set(id, { ...at, x: at.x + byX, y: at.y + byY });
      if (!known.has(id)) spans.set(id, span);
    }
    for (const [id, points] of box.lines) lines.set(id, points.map(({ x, y }) => ({ x: x + byX, y: y + byY })));
  }
  return { group, width: width + 2 * EDGE, height: height + title + EDGE, places, lines, spans };
};

const LAID = new Map(); // sites as they were laid out, by what is in them
const MOST_LAID = 400;

const siteOnce = (group, nodes, edges, options) => {
  const shape = [options.down, group, ...nodes.map((node) => `${node.id}${node.split ? " split" : ""}`), ...edges.map((edge) => edge.id)].join("\n");
  if (!LAID.has(shape)) {
    if (LAID.size >= MOST_LAID) LAID.clear();
    LAID.set(shape, siteLayout(group, nodes, edges, options));
  }
  return LAID.get(shape);
};

// --- the sites among themselves

// Sites of one rank are one below the other, in several columns where one would be too high.
const inColumns = (graph, sites, limit) => {
  const ranks = [...grouped(sites, (site) => Math.round(graph.node(site.group).x)).entries()];
  let x = 0;
  let height = 0;
  const placed = [];
  for (const [, rank] of ranks.sort(([one], [other]) => one - other)) {
    const ordered = rank.sort((one, other) => graph.node(one.group).y - graph.node(other.group).y);
    const columns = packedBelow(ordered, limit);
    for (const column of columns) {
      const widest = Math.max(...column.map((site) => site.width));
      let y = 0;
      for (const site of column) {
        placed.push({ site, x: x + (widest - site.width) / 2, y });
        y += site.height + APART.sites / 2;
      }
      height = Math.max(height, y - APART.sites / 2);
      x += widest + APART.sites;
    }
  }
  return { placed: centred(placed, height), width: x - APART.sites, height };
};

const packedBelow = (sites, limit) => {
  const columns = [[]];
  let height = 0;
  for (const site of sites) {
    if (height > 0 && height + site.height > limit) {
      columns.push([]);
      height = 0;
    }
    columns.at(-1).push(site);
    height += site.height + APART.sites / 2;
  }
  return columns;
};

const centred = (placed, height) => {
  const columns = grouped(placed, ({ x, site }) => Math.round(x + site.width / 2));
  return [...columns.values()].flatMap((column) => {
    const bottom = Math.max(...column.map(({ y, site }) => y + site.height));
    return column.map((each) => ({ ...each, y: each.y + (height - bottom) / 2 }));
  });
};

const sitesLayout = (sites, pairs, { down, ratio }) => {
  const known = new Map(sites.map((site) => [site.group, site]));
  const boxes = partsOf([...known.keys()], pairs).map((part) => {
    const mine = part.map((group) => known.get(group));
    const inside = pairs.filter(([from]) => part.includes(from)).map(([from, to]) => ({ from, to, weight: 1 }));
    const nodes = mine.map(({ group, width, height }) => ({ id: group, width, height }));
    const graph = ranked(nodes, inside, { down: false, apart: { nodes: APART.sites / 2, ranks: APART.sites } });
    const area = mine.reduce((sum, site) => sum + (site.width + 56) * (site.height + 28), 0);
    const tallest = Math.max(...mine.map((site) => site.height));
    return down ? inOne(graph, mine) : inColumns(graph, mine, Math.max(tallest, Math.sqrt(area / ratio) * 1.15));
  });
  const { placed, width, height } = packed(boxes, APART.sites, down ? 0 : ratio);
  const all = placed.flatMap((box) => box.placed.map((each) => ({ ...each, x: each.x + box.x, y: each.y + box.y })));
  return { placed: all, width, height };
};

// All sites one below the other, in the order of the data.
const inOne = (graph, sites) => {
  const at = (site) => graph.node(site.group);
  const ordered = [...sites].sort((one, other) => at(one).x - at(other).x || at(one).y - at(other).y);
  const width = Math.max(...sites.map((site) => site.width));
  let y = 0;
  const placed = ordered.map((site) => {
    const place = { site, x: (width - site.width) / 2, y };
    y += site.height + APART.sites / 2;
    return place;
  });
  return { placed, width, height: y - APART.sites / 2 };
};

// --- lines

// A line through points that leaves and reaches each of them along the flow.
export const lineThrough = (points, down) => {
  const [first, ...rest] = points;
  let before = first;
  const pieces = rest.map((point) => {
    const along = down ? point.y - before.y : point.x - before.x;
    const reach = along > 0 ? along / 2 : Math.min(160, 40 - along / 2);
    const [one, other] = down
      ? [`${before.x} ${before.y + reach}`, `${point.x} ${point.y - reach}`]
      : [`${before.x + reach} ${before.y}`, `${point.x - reach} ${point.y}`];
    before = point;
    return `C${one} ${other} ${point.x} ${point.y}`;
  });
  return `M${first.x} ${first.y}${pieces.join("")}`;
};

// From one site back to another that lies before it: around them, below (or beside) both.
const wayBack = ([from, to], lane, down) => {
  const turn = LANE * 2;
  return down
    ? `C${from.x} ${from.y + turn} ${lane} ${from.y + turn} ${lane} ${from.y}L${lane} ${to.y}C${lane} ${to.y - turn} ${to.x} ${to.y - turn} ${to.x} ${to.y}`
    : `C${from.x + turn} ${from.y} ${from.x + turn} ${lane} ${from.x} ${lane}L${to.x} ${lane}C${to.x - turn} ${lane} ${to.x - turn} ${to.y} ${to.x} ${to.y}`;
};

// From one site down to another past those between them: along their left side.
const wayAlong = ([from, to]) => {
  const [x, turn] = [LANE, LANE];
  return `C${from.x} ${from.y + turn} ${x} ${from.y} ${x} ${from.y + 2 * turn}L${x} ${to.y - 2 * turn}C${x} ${to.y} ${to.x} ${to.y - turn} ${to.x} ${to.y}`;
};

const isBetween = (boxes, one, other) =>
  [...boxes.values()].some((box) => box !== other && box.y > one.y && box.y < other.y);

const rounded = (points) => points.map(({ x, y }) => ({ x: Math.round(x * 10) / 10, y: Math.round(y * 10) / 10 }));

// The points of a line in a site; dagre's own lie at every half rank, and at the sides of the nodes.
const bends = (points, from, to, down) => {
  const sides = down
    ? [{ x: from.x, y: from.y + from.height / 2 }, { x: to.x, y: to.y - to.height / 2 }]
    : [{ x: from.x + from.width / 2, y: from.y }, { x: to.x - to.width / 2, y: to.y }];
  const between = points.slice(1, -1).filter((_, index) => index % 2 === 1);
  return [sides[0], ...between, sides[1]];
};

const shifted = (points, by) => points.map(({ x, y }) => ({ x: x + by.x, y: y + by.y }));

const lineFrom = (points, down) => lineThrough(rounded(points), down);
const goingOn = (path) => path.replace(/^M[^C]*/, "");

// From one lane across the flow to another, between two parts.
const across = (from, to, down) =>
  down
    ? `C${from.x} ${to.y} ${to.x} ${from.y} ${to.x} ${to.y}`
    : `C${to.x} ${from.y} ${from.x} ${to.y} ${to.x} ${to.y}`;

const isBlocked = (site, from, to, at, down) => {
  const [along, aside, size] = down ? ["y", "x", "width"] : ["x", "y", "height"];
  return [...site.places.values()].some(
    (place) => place.width > PORT.width && place[along] > from && place[along] < to && Math.abs(place[aside] - at) < place[size] / 2,
  );
};

// The way from a node to its site's border, and where it reaches that: straight, or, where another part of the site
// lies in the way, along the side that is on the right of (or below) all of them.
const wayOut = ({ site, x, y }, id, down) => {
  const [along, aside] = down ? ["y", "x"] : ["x", "y"];
  const [port, span] = [site.places.get(`out ${id}`), site.spans.get(`out ${id}`)];
  const points = bends(site.lines.get(`${id} > out ${id}`), site.places.get(id), port, down);
  const edge = down ? site.height : site.width;
  const spot = (way, over) => (down ? { x: over, y: way } : { x: way, y: over });
  const to = (point) => ({ x: point.x + x, y: point.y + y });
  if (!isBlocked(site, span.high, edge, port[aside], down)) {
    const end = spot(edge, points.at(-1)[aside]);
    // A port may lie beyond the border: the line would go out there, and back.
    const within = points.at(-1)[along] < edge ? points : points.slice(0, -1);
    return { path: lineFrom([...within, end].map(to), down), end: to(end) };
  }
  const lane = (down ? site.width : site.height) - EDGE / 2;
  const inside = points.slice(0, -1).filter((point, index) => index === 0 || point[along] < span.high);
  const out = spot(span.high, port[aside]);
  const before = inside.at(-1)[along] < span.high - 1 ? [...inside, out] : inside;
  const [from, turned, end] = rounded([before.at(-1), spot(before.at(-1)[along] + APART.parts, lane), spot(edge, lane)].map(to));
  return { path: `${lineFrom(before.map(to), down)}${across(from, turned, down)}L${end.x} ${end.y}`, end };
};

// Likewise from the border to a node: along the left (or upper) side.
const wayIn = ({ site, x, y }, id, down) => {
  const [along, aside] = down ? ["y", "x"] : ["x", "y"];
  const [port, span] = [site.places.get(`in ${id}`), site.spans.get(`in ${id}`)];
  const points = bends(site.lines.get(`in ${id} > ${id}`), port, site.places.get(id), down);
  const spot = (way, over) => (down ? { x: over, y: way } : { x: way, y: over });
  const to = (point) => ({ x: point.x + x, y: point.y + y });
  if (!isBlocked(site, 0, span.low, port[aside], down)) {
    const start = spot(0, points[0][aside]);
    const within = points[0][along] > 0 ? points : points.slice(1);
    return { path: lineFrom([start, ...within].map(to), down), start: to(start) };
  }
  const lane = down ? EDGE / 2 : TITLE - 6;
  const inside = points.slice(1).filter((point, index, all) => index === all.length - 1 || point[along] > span.low);
  const into = spot(span.low, port[aside]);
  const after = inside[0][along] > span.low + 1 ? [into, ...inside] : inside;
  const [start, turned, first] = rounded([spot(0, lane), spot(after[0][along] - APART.parts, lane), after[0]].map(to));
  const rest = goingOn(lineFrom(after.map(to), down));
  return { path: `M${start.x} ${start.y}L${turned.x} ${turned.y}${across(turned, first, down)}${rest}`, start };
};

const pathOf = (edge, boxes, down) => {
  const [one, other] = [boxes.get(edge.from.group), boxes.get(edge.to.group)];
  if (one === other) {
    const { site } = one;
    const points = bends(site.lines.get(`${edge.from.id} > ${edge.to.id}`), site.places.get(edge.from.id), site.places.get(edge.to.id), down);
    return lineFrom(shifted(points, one), down);
  }
  const [out, into] = [wayOut(one, edge.from.id, down), wayIn(other, edge.to.id, down)];
  const ends = rounded([out.end, into.start]);
  const isBack = down ? ends[1].y < ends[0].y : ends[1].x < ends[0].x;
  const lane = down
    ? Math.max(one.x + one.site.width, other.x + other.site.width) + LANE
    : Math.max(one.y + one.site.height, other.y + other.site.height) + LANE;
  const between = isBack
    ? wayBack(ends, lane, down)
    : down && isBetween(boxes, one, other)
      ? wayAlong(ends)
      : goingOn(lineThrough(ends, down));
  return `${out.path}${between}${into.path.replace(/^M[^CL]*/, "")}`;
};

// Everything's place.  `ratio` is how many times as wide as high it may become.
export const layout = (graph, { down = false, ratio = 1.9 } = {}) => {
  const all = [...graph.jobs, ...graph.topics];
  if (!all.length) return { width: 0, height: 0, sites: [], places: new Map(), paths: new Map() };
  const mine = grouped(all, (node) => node.group);
  const touching = new Map([...mine.keys()].map((group) => [group, []]));
  const pairs = new Map();
  for (const edge of graph.edges) {
    touching.get(edge.from.group).push(edge);
    if (edge.from.group === edge.to.group) continue;
    touching.get(edge.to.group).push(edge);
    pairs.set(`${edge.from.group}\n${edge.to.group}`, [edge.from.group, edge.to.group]);
  }
  const groups = [...mine.keys()].sort();
  const sites = groups.map((group) => siteOnce(group, mine.get(group), touching.get(group), { down }));
  const arranged = sitesLayout(sites, [...pairs.values()], { down, ratio });
  const margin = down ? 2 * LANE : 0;
  const placed = arranged.placed.map((box) => ({ ...box, x: box.x + margin }));
  const { width, height } = { width: arranged.width + margin, height: arranged.height };
  const boxes = new Map(placed.map((box) => [box.site.group, box]));
  const places = new Map();
  for (const { id, group } of all) {
    const { site, x, y } = boxes.get(group);
    const at = site.places.get(id);
    places.set(id, { x: at.x + x, y: at.y + y, width: at.width, height: at.height });
  }
  return {
    width,
    height,
    sites: placed.map(({ site, x, y }) => ({ group: site.group, x, y, width: site.width, height: site.height })),
    places,
    paths: new Map(graph.edges.map((edge) => [edge.id, pathOf(edge, boxes, down)])),
  };
};
