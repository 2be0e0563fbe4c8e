// Asks the worker for layouts.
const worker = new Worker("/dashboard/layout-worker.js", { type: "module" });
const waiting = new Map(); // those who asked, by number
let last = 0;

const give = (number, answer) => {
  waiting.get(number)?.(answer);
  waiting.delete(number);
};

worker.onmessage = ({ data: { number, ...answer } }) => give(number, answer);
// Its files cannot be had, or are no scripts: nobody who asked will be answered otherwise.
worker.onerror = () => {
  for (const number of [...waiting.keys()]) give(number, { error: "the layout script could not be loaded (reload the page)" });
};

// Only what the layout looks at goes there: nodes and edges by their ids, without what is known of the jobs.
const bare = ({ jobs, topics, edges }) => {
  const nodes = new Map([...jobs, ...topics].map((node) => [node, { id: node.id, kind: node.kind, group: node.group, topic: node.topic, split: Boolean(node.split) }]));
  return {
    jobs: jobs.map((node) => nodes.get(node)),
    topics: topics.map((node) => nodes.get(node)),
    edges: edges.map(({ id, from, to }) => ({ id, from: nodes.get(from), to: nodes.get(to) })),
  };
};

// Everything's place (see layout.js): answers `plan`, or `error`.
export const laidOut = (graph, options) =>
  new Promise((done) => {
    last += 1;
    waiting.set(last, done);
    worker.postMessage({ number: last, graph: bare(graph), options });
  });
