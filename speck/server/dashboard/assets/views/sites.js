// The sites: which engines and brokers are reachable, and their free capacity.
import { html } from "../html.js";
import { Empty, Meter } from "../parts.js";
import { troubled } from "../states.js";
import { places } from "../topology.js";
import { bits, bytes, count, known, moment } from "../words.js";
import { items, world } from "../world.js";

const Reached = ({ told }) => {
  if (!told) return html`<span class="badge tone-still"><span class="badge-mark" aria-hidden="true">…</span>not checked yet</span>`;
  if (told.stopped) return html`<span class="badge tone-still"><span class="badge-mark" aria-hidden="true">■</span>stopped</span>`;
  return told.reached
    ? html`<span class="badge tone-good"><span class="badge-mark" aria-hidden="true">✓</span>reachable</span>`
    : html`<span class="badge tone-bad"><span class="badge-mark" aria-hidden="true">✕</span>unreachable</span>`;
};

const Room = ({ capacity }) => {
  if (!capacity) return null;
  const { slots, slots_free: free, cores, memory, memory_free: memoryFree } = capacity;
  const used = known(slots) && known(free) ? slots - free : null;
  const held = known(memory) && known(memoryFree) ? memory - memoryFree : null;
  return html`
    ${known(used) && html`<${Meter} used=${used} all=${slots} text="${used} of ${slots} slots used" />`}
    ${known(held) && html`<${Meter} used=${held} all=${memory} text="${bytes(held)} of ${bytes(memory)} used" />`}
    <p class="quiet">${[known(slots) && !known(used) && count(slots, "slot"), known(cores) && count(cores, "core"), known(memory) && !known(held) && bytes(memory)].filter(Boolean).join(" · ")}</p>
  `;
};

const Workers = ({ group }) => {
  if (!group || !known(group.desired)) return null;
  const tone = group.state === "failed" ? "tone-bad" : "tone-warn";
  const busy = group.workers.filter((each) => !each.free).length;
  return html`
    <${Meter} used=${busy} all=${group.present} text="${busy} of ${count(group.present, "worker")} busy" />
    ${group.present !== group.desired && html`<p class="notice ${tone}">${count(group.desired, "worker")} desired: ${group.message}</p>`}
    ${group.present === group.desired && html`<p class="quiet">${group.message}; ${group.least} to ${group.most} allowed</p>`}
  `;
};

const Pool = ({ group }) => {
  const tone = group.state === "failed" || group.state === "silent" ? "tone-bad" : "tone-warn";
  return html`
    <div class="place">
      <div class="place-head"><span><strong>${group.engine.replace(/^pool/, "Pool")}</strong></span></div>
      <${Meter} used=${group.bins} all=${group.most} text="${group.bins} of ${count(group.most, "engine")} with jobs" />
      <p class=${group.state === "idle" ? "quiet" : `notice ${tone}`}>${group.message}; ${group.present} running, ${group.desired} desired</p>
    </div>
  `;
};

const Engine = ({ address, told }) => html`
  <div class="place">
    <div class="place-head"><span><strong>Engine</strong> <code>${address}</code></span><${Reached} told=${told} /></div>
    ${told?.error && html`<p class="notice tone-bad">${told.error}</p>`}
    <${Room} capacity=${told?.capacity} />
    <${Workers} group=${world.kinds.worker.get(address)} />
  </div>
`;

const Broker = ({ address, told }) => html`
  <div class="place">
    <div class="place-head"><span><strong>Broker</strong> <code>${address}</code></span><${Reached} told=${told} /></div>
    ${told?.error && html`<p class="notice tone-bad">${told.error}</p>`}
    ${(told?.warnings ?? []).map((each) => html`<p class="notice tone-warn">${each}</p>`)}
  </div>
`;

const Agent = ({ agent }) => {
  if (!agent) return null;
  const since = known(agent.since) && html` <span class="quiet">since ${moment(agent.since)}</span>`;
  const more = [known(agent.version) && `version ${agent.version}`, agent.restarts > 0 && count(agent.restarts, "restart")].filter(Boolean);
  if (agent.connected) return html`<p>Agent connected${since}${more.length > 0 && html`<span class="quiet">, ${more.join(", ")}</span>`}</p>`;
  return html`<p class="notice tone-warn">${agent.revoked ? "Agent revoked" : html`Agent away${since}`}: the jobs here continue, and changes wait.</p>`;
};

const Link = ({ uplink }) => {
  if (!known(uplink?.bandwidth) && !known(uplink?.latency)) return null;
  const parts = [known(uplink.bandwidth) && bits(uplink.bandwidth), known(uplink.latency) && `${uplink.latency} ms one way`];
  return html`<p class="quiet">Uplink: ${parts.filter(Boolean).join(", ")}</p>`;
};

const poolsOf = (site) => items("worker").filter((each) => each.site === site && each.engine.startsWith("pool "));

const Site = ({ site, jobs }) => {
  const told = world.kinds.reach.get(site.name);
  const wrong = jobs.filter(troubled).length;
  return html`
    <li class="panel">
      <header class="panel-head">
        <h2>${site.name}</h2>
        <span class="quiet">${count(jobs.length, "job")}${wrong > 0 && `, ${wrong} ${wrong === 1 ? "needs" : "need"} attention`}</span>
      </header>
      <div class="pad">
        ${site.engines.map((address) => html`<${Engine} key=${address} address=${address} told=${told?.engines.find((each) => each.address === address)} />`)}
        ${poolsOf(site.name).map((group) => html`<${Pool} key=${group.engine} group=${group} />`)}
        <${Broker} address=${site.broker} told=${told?.broker} />
        <${Agent} agent=${told?.agent} />
        <${Link} uplink=${site.uplink} />
      </div>
    </li>
  `;
};

export const Sites = () => {
  const sites = items("site").sort((one, other) => (one.name < other.name ? -1 : 1));
  const place = places(sites);
  const jobs = items("job").filter((job) => job.job);
  const siteOf = (job) => job.job.site ?? place.engine(job.job.spe_address);
  const named = new Set(sites.map((site) => site.name));
  const elsewhere = new Map();
  for (const job of jobs.filter((each) => !named.has(siteOf(each)))) {
    elsewhere.set(job.job.spe_address, (elsewhere.get(job.job.spe_address) ?? 0) + 1);
  }
  return html`
    <h1 class="title">Sites <span class="quiet">refreshed every few seconds</span></h1>
    ${world.loaded && !sites.length && html`<${Empty} title="No inventory">Start the server with <code>speck serve --sites FILE</code> to see which sites are reachable and their free capacity.<//>`}
    <ul class="cards">${sites.map((site) => html`<${Site} key=${site.name} site=${site} jobs=${jobs.filter((job) => siteOf(job) === site.name)} />`)}</ul>
    ${elsewhere.size > 0 && html`
      <section class="panel">
        <header class="panel-head"><h2>Not in the inventory</h2></header>
        <ul class="pad plain">${[...elsewhere].map(([address, number]) => html`<li><code>${address}</code>: ${count(number, "job")}</li>`)}</ul>
      </section>
    `}
  `;
};
