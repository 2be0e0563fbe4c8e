// Chains of jobs at one site that all write to another: the lines that pass over a job that they neither leave nor reach.
const { topology } = await import("/dashboard/topology.js");
const { layout } = await import("/dashboard/layout.js");
const [chains, toward, down] = given;
const at = (site, name) => ({ site, spe_address: "sc://" + site + ":1", job_name: name });
const job = (chain, step) => {
  const last = step === 1;
  const away = (end) => (toward === "out" ? last && end === "sink" : !last && end === "source") ? "tcp://cloud:1" : "tcp://field:1";
  return { ...at("field", chain + "-" + step), source_broker: away("source"), source_topic: chain + "/" + step,
    sink_broker: away("sink"), sink_topic: chain + "/" + (step + 1) };
};
const made = [...Array(chains).keys()].flatMap((chain) => [job(chain, 0), job(chain, 1)]);
const sites = ["field", "cloud"].map((name) => ({ name, engines: ["sc://" + name + ":1"], broker: "tcp://" + name + ":1" }));
const graph = topology(made, sites);
const plan = layout(graph, { down });
const jobs = graph.jobs.map((node) => [node.id, plan.places.get(node.id)]);
const drawn = document.createElementNS("http://www.w3.org/2000/svg", "path");
const passes = (edge) => {
  drawn.setAttribute("d", plan.paths.get(edge.id));
  const length = drawn.getTotalLength();
  const over = ({ x, y }) => jobs.find(([id, place]) => id !== edge.from.id && id !== edge.to.id
    && Math.abs(x - place.x) < place.width / 2 && Math.abs(y - place.y) < place.height / 2)?.[0];
  for (let way = 0; way < length; way += 4) {
    const found = over(drawn.getPointAtLength(way));
    if (found) return [edge.id, found];
  }
  return null;
};
return { edges: graph.edges.length, crossed: graph.edges.map(passes).filter(Boolean) };
