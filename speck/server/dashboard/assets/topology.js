// From jobs to a graph: jobs and topics are nodes, a topic lies at the site of its broker.  Nothing is drawn here.
import { host } from "./words.js";

const LEVEL = "/";

// Whether a topic filter takes in a topic (MQTT 5.0, section 4.7): `+` is one level, `#` all that follow.
export const fits = (filter, topic) => {
  const wanted = filter.split(LEVEL);
  const given = topic.split(LEVEL);
  if (given[0].startsWith("$") && ["+", "#"].includes(wanted[0])) return false;
  for (const [depth, word] of wanted.entries()) {
    if (word === "#") return true;
    if (depth >= given.length || (word !== "+" && word !== given[depth])) return false;
  }
  return wanted.length === given.length;
};

const isFilter = (topic) => /[+#]/.test(topic);

const unique = (pairs) => {
  const found = new Map();
  for (const [key, name] of pairs) found.set(key, found.has(key) && found.get(key) !== name ? null : name);
  return (key) => found.get(key) ?? null;
};

// Where an engine and a broker belong: to the site of the inventory that has them, otherwise to their host.
export const places = (sites) => {
  const engines = unique(sites.flatMap((site) => site.engines.map((address) => [address, site.name])));
  const brokers = unique(sites.map((site) => [site.broker, site.name]));
  const hosts = unique(
    sites.flatMap((site) => [...site.engines, site.broker].map((address) => [host(address), site.name])),
  );
  const placed = (known) => (address) => known(address) ?? hosts(host(address)) ?? host(address);
  return { engine: placed(engines), broker: placed(brokers) };
};

// The topics that a job writes; a part of a split by keys has several.
const given = (job) => (job.writes ?? [job.sink_topic]).map((topic) => ({ broker: job.sink_broker, topic }));

const writtenTo = (jobs) => {
  const found = new Map();
  for (const each of jobs.flatMap(given)) {
    const key = `${each.broker} ${each.topic}`;
    if (!found.has(key)) found.set(key, each);
  }
  return found;
};

// The topics that a job reads: those written to that its filter takes in, otherwise what it says itself.
const taken = (job, written) => {
  const own = { broker: job.source_broker, topic: job.source_topic };
  if (!isFilter(job.source_topic)) return [own];
  const found = [...written.values()].filter(
    (each) => each.broker === job.source_broker && fits(job.source_topic, each.topic),
  );
  return found.length ? found : [own];
};

// `jobs` are plain jobs (job_name, spe_address, source_broker, ...), `sites` those of the inventory.
export const topology = (jobs, sites) => {
  const place = places(sites);
  const topics = new Map();
  const edges = [];
  const topicAt = ({ broker, topic }) => {
    const id = `topic ${broker} ${topic}`;
    if (!topics.has(id)) {
      topics.set(id, { id, kind: "topic", topic, broker, group: place.broker(broker), writers: [], readers: [] });
    }
    return topics.get(id);
  };
  const written = writtenTo(jobs);
  const nodes = jobs.map((job) => {
    const node = { id: `job ${job.job_name}`, kind: "job", name: job.job_name };
    node.group = job.site ?? place.engine(job.spe_address);
    node.reads = taken(job, written).map(topicAt);
    node.writes = given(job).map(topicAt);
    node.split = job.split?.of;
    for (const topic of node.reads) {
      topic.readers.push(job.job_name);
      edges.push({ id: `${topic.id} > ${node.id}`, from: topic, to: node });
    }
    for (const topic of node.writes) {
      topic.writers.push(job.job_name);
      edges.push({ id: `${node.id} > ${topic.id}`, from: node, to: topic });
    }
    return node;
  });
  return { jobs: nodes, topics: [...topics.values()], edges };
};

// What of two topologies is drawn alike: the same nodes at the same sites, tied alike.
export const shapeOf = (graph) => {
  const nodes = [...graph.jobs, ...graph.topics].map((node) => `${node.id}@${node.group}`);
  return [...nodes, ...graph.edges.map((edge) => edge.id)].join("\n");
};

// The messages per second through a topic: what its writers send, or what its readers take where they are not known.
export const throughput = (topic, rates) => {
  const sum = (names, field) => {
    const known = names.map((name) => rates.get(name)?.[field]).filter((value) => typeof value === "number");
    return known.length ? known : null;
  };
  const sent = sum(topic.writers, "output_rate");
  if (sent) return sent.reduce((total, value) => total + value, 0);
  const read = sum(topic.readers, "input_rate");
  return read ? Math.max(...read) : null;
};

const MARGIN = 7; // px around the jobs of a split
const HEAD = 18; // px above them, for its name

// The frames of the splits by keys: at each site one around all jobs of a split, or where other jobs lie among them
// one around each.  `placeOf` has the middle of a node, `size` that of a job.
export const splitFrames = (graph, placeOf, size) => {
  const placed = graph.jobs.map((node) => ({ node, at: placeOf(node) })).filter(({ at }) => at);
  const boxOf = (members) => {
    const [xs, ys] = [members.map(({ at }) => at.x), members.map(({ at }) => at.y)];
    const [x, y] = [Math.min(...xs) - size.width / 2 - MARGIN, Math.min(...ys) - size.height / 2 - HEAD];
    const width = Math.max(...xs) + size.width / 2 + MARGIN - x;
    return { x, y, width, height: Math.max(...ys) + size.height / 2 + MARGIN - y };
  };
  const within = (box, at) =>
    at.x + size.width / 2 > box.x && at.x - size.width / 2 < box.x + box.width && at.y + size.height / 2 > box.y && at.y - size.height / 2 < box.y + box.height;
  const groups = new Map();
  for (const each of placed) {
    const key = `${each.node.group} ${each.node.split}`;
    if (each.node.split) groups.set(key, [...(groups.get(key) ?? []), each]);
  }
  return [...groups.entries()].flatMap(([key, members]) => {
    const others = placed.filter((each) => !members.includes(each));
    const whole = boxOf(members);
    const boxes = others.some(({ at }) => within(whole, at)) ? members.map((each) => boxOf([each])) : [whole];
    return boxes.map((box, index) => ({ ...box, key: `${key} ${index}`, split: members[0].node.split }));
  });
};
