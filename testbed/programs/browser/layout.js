// A made-up composition laid out: what lies upon something else, or outside of its site.
const { topology } = await import("/dashboard/topology.js");
const { layout } = await import("/dashboard/layout.js");
const [kind, sites, jobs, down] = given;
let seed = 7;
const chance = (below) => { seed = (seed * 48271) % 2147483647; return seed % below; };
const name = (index) => "S" + index;
const several = Math.ceil(jobs / sites);
// What the job of this index at this site reads, and where (which site's broker) it writes what.
const flows = {
  any: (index, site) => ["t" + chance(several), chance(5) === 0 ? chance(sites) : site, "t" + chance(several)],
  fan: (index) => (index === 0 ? ["f/+", 0, "all"] : ["raw", 0, "f/" + index]),
  circle: (index) => ["t" + index, (index + 1) % sites, "t" + ((index + 1) % jobs)],
  itself: (index, site) => ["t" + index, site, "t" + index],
};
const made = [...Array(jobs).keys()].map((index) => {
  const site = index % sites;
  const [reads, far, writes] = flows[kind](index, site);
  return { job_name: "job-" + index, site: name(site), spe_address: "sc://e" + site + ":1",
    source_broker: "tcp://b" + site + ":1", source_topic: reads, sink_broker: "tcp://b" + far + ":1", sink_topic: writes };
});
const inventory = [...Array(sites).keys()].map((index) =>
  ({ name: name(index), engines: ["sc://e" + index + ":1"], broker: "tcp://b" + index + ":1" }));
const graph = topology(made, inventory);
const plan = layout(graph, { down });
const box = (at) => ({ left: at.x - at.width / 2, right: at.x + at.width / 2, top: at.y - at.height / 2, bottom: at.y + at.height / 2 });
const apart = (a, b) => a.right <= b.left || b.right <= a.left || a.bottom <= b.top || b.bottom <= a.top;
const nodes = [...graph.jobs, ...graph.topics].map((node) => ({ id: node.id, group: node.group, ...box(plan.places.get(node.id)) }));
const areas = plan.sites.map((site) => ({ id: site.group, left: site.x, top: site.y, right: site.x + site.width, bottom: site.y + site.height }));
const overlaps = (all) => all.flatMap((one, index) => all.slice(index + 1).filter((other) => !apart(one, other)).map((other) => [one.id, other.id]));
const outside = nodes.filter((node) => {
  const site = areas.find((each) => each.id === node.group);
  return node.left < site.left || node.right > site.right || node.top < site.top + 34 || node.bottom > site.bottom;
}).map((node) => node.id);
const odd = [...plan.paths].filter(([, path]) => !/^M[-0-9. ]+([CL][-0-9. ]+)+$/.test(path)).map(([id]) => id);
return { jobs: graph.jobs.length, overlaps: [...overlaps(nodes), ...overlaps(areas)], outside, odd };
