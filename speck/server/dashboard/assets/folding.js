// The jobs that one `for_each` made, shown as one: in the graph, in the table and in plans.
import { jobLook, troubled } from "./states.js";
import { count, known } from "./words.js";

export const MOST = 60; // jobs; above that they are folded unless the reader chose otherwise
export const MOST_UNFOLDED = 1500; // jobs; more of them cannot be drawn one by one
const NAMED = 4; // sites that are named before they are only counted
const TONES = ["good", "still", "busy", "move", "warn", "bad"]; // the last one is looked at first

const keyOf = ({ job }) => `${job.composition ?? ""} ${job.job?.template}`;

// Rows of jobs by template: those that more than one job has.
const templates = (rows) => {
  const found = new Map();
  for (const row of rows) {
    if (!row.job.job?.template) continue;
    const key = keyOf(row);
    if (found.has(key)) found.get(key).push(row);
    else found.set(key, [row]);
  }
  for (const [key, members] of found) if (members.length < 2) found.delete(key);
  return found;
};

export const canFold = (rows) => templates(rows).size > 0;

const commonStart = (texts) => {
  const [first] = texts;
  let length = first.length;
  for (const text of texts) while (!text.startsWith(first.slice(0, length))) length -= 1;
  return first.slice(0, length);
};

const backwards = (text) => [...text].reverse().join("");

const patternOf = (topics) => {
  const start = commonStart(topics);
  const end = backwards(commonStart(topics.map((topic) => backwards(topic.slice(start.length)))));
  return `${start}*${end}`;
};

// The name of each topic that is another one from job to job, with `*` where it differs; by broker and topic.
const patterns = (groups) => {
  const found = new Map();
  for (const members of groups) {
    for (const [broker, topic] of [["source_broker", "source_topic"], ["sink_broker", "sink_topic"]]) {
      const topics = [...new Set(members.map(({ job }) => job.job[topic]))];
      if (topics.length < 2) continue;
      const pattern = patternOf(topics);
      for (const { job } of members) found.set(`${job.job[broker]} ${job.job[topic]}`, pattern);
    }
  }
  return (broker, topic) => found.get(`${broker} ${topic}`) ?? topic;
};

const titleOf = (sites) =>
  sites.length <= NAMED ? sites.join(", ") : `${count(sites.length, "site")}: ${sites.slice(0, 2).join(", ")}, …`;

const sumOf = (members, field) => {
  let [sum, any] = [0, false];
  for (const { rates } of members) {
    if (known(rates?.[field])) [sum, any] = [sum + rates[field], true];
  }
  return any ? sum : null;
};

const mostOf = (members, field) => {
  const found = members.map(({ rates }) => rates?.[field]).filter(known);
  return found.length > 0 ? Math.max(...found) : null;
};

const ratesOf = (members) => ({
  input_rate: sumOf(members, "input_rate"),
  output_rate: sumOf(members, "output_rate"),
  waiting: sumOf(members, "waiting"),
  behind: sumOf(members, "behind"),
  behind_seconds: mostOf(members, "behind_seconds"),
});

// How many jobs have each state, and the mark of the gravest.
const looksOf = (members) => {
  const numbers = new Map();
  const looks = new Map();
  for (const { job } of members) {
    const look = jobLook(job);
    looks.set(look.text, look);
    numbers.set(look.text, (numbers.get(look.text) ?? 0) + 1);
  }
  const order = [...looks.values()].sort((one, other) => TONES.indexOf(other.tone) - TONES.indexOf(one.tone));
  const [worst] = order;
  return { ...worst, text: order.length > 1 ? order.map(({ text }) => `${numbers.get(text)} ${text}`).join(", ") : worst.text };
};

const renamed = (fields, nameOf) => ({
  ...fields,
  source_topic: nameOf(fields.source_broker, fields.source_topic),
  sink_topic: nameOf(fields.sink_broker, fields.sink_topic),
  writes: fields.writes?.map((topic) => nameOf(fields.sink_broker, topic)),
});

// All jobs of a template as one row, with its rows in `members`; `at` is the name of its sites in the graph.
const rowOf = (name, members, one, at, nameOf) => {
  const sites = new Set(members.map(({ site }) => site));
  const observed = members.map((each) => each.observed).filter(known);
  const job = {
    ...one.job,
    job_name: name,
    job: { ...renamed(one.job.job, nameOf), job_name: name, site: at },
    drift: null,
    losses: [],
    fold: { count: members.length, sites: sites.size, look: looksOf(members) },
  };
  return { job, members, rates: ratesOf(members), site: count(sites.size, "site"), observed: observed.length ? Math.min(...observed) : undefined };
};

// The rows with one in the place of all those of a template; and the sites, of which one stands for all of them.
//
// A row stands for a job at a site that most templates have, so that its lines lead to its neighbours.
export const folded = (rows, sites) => {
  const groups = templates(rows);
  if (!groups.size) return { rows, sites };
  const common = new Map();
  for (const members of groups.values()) {
    for (const site of new Set(members.map((row) => row.site))) common.set(site, (common.get(site) ?? 0) + 1);
  }
  const chosen = new Map();
  const together = new Map(); // the sites that one stands for
  for (const [key, members] of groups) {
    const one = members.reduce((best, row) => (common.get(row.site) > common.get(best.site) ? row : best));
    chosen.set(key, one);
    const here = together.get(one.site) ?? new Set();
    for (const row of members) here.add(row.site);
    together.set(one.site, here);
  }
  const titles = new Map([...together].map(([site, all]) => [site, titleOf([...all].sort())]));
  const nameOf = patterns(groups.values());
  const names = new Set();
  const made = [...groups].map(([key, members]) => {
    const one = chosen.get(key);
    const { template } = one.job.job;
    const name = names.has(template) ? `${one.job.composition}: ${template}` : template;
    names.add(template);
    return rowOf(name, members, one, titles.get(one.site), nameOf);
  });
  const others = rows
    .filter((row) => !groups.has(keyOf(row)))
    .map((row) => (row.job.job ? { ...row, job: { ...row.job, job: renamed(row.job.job, nameOf) } } : row));
  return {
    rows: [...made, ...others],
    sites: sites.map((site) => (titles.has(site.name) ? { ...site, name: titles.get(site.name) } : site)),
  };
};

// The members of a folded row, those that need attention first.
export const membersOf = (row) => [...row.members].sort((one, other) => Number(troubled(other.job)) - Number(troubled(one.job)));
