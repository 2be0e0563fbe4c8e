// The layer of fences: the more movers are inside, the fuller is its colour.
import { colour } from "./colours.js";

const FULL = 12; // movers inside, from which a fence has its fullest colour

export class Fences {
  constructor(map, onChoose) {
    this.map = map;
    this.onChoose = onChoose;
    this.renderer = L.canvas({ padding: 0.2 });
    this.fences = new Map(); // by name the record, with `inside` and `layer`
    this.chosen = null;
  }

  has(name) {
    return Boolean(this.fences.get(name)?.geometry);
  }

  get(name) {
    return this.fences.get(name);
  }

  names() {
    return [...this.fences].filter(([, fence]) => fence.geometry).map(([name]) => name);
  }

  put(name, record) {
    const known = this.fences.get(name);
    known?.layer?.remove();
    const fence = { inside: known?.inside ?? 0, ...record, layer: null };
    this.fences.set(name, fence);
    if (!record.geometry) return;
    fence.layer = L.geoJSON(record.geometry, { renderer: this.renderer, style: () => this.style(name, fence) });
    fence.layer.on("click", (event) => this.onChoose(name, event));
    fence.layer.addTo(this.map);
  }

  setInside(name, inside) {
    const known = this.fences.get(name);
    if (!known) this.fences.set(name, { inside, geometry: null, layer: null });
    else if (known.inside !== inside) {
      known.inside = inside;
      this.restyle(name);
    }
  }

  choose(name) {
    const former = this.chosen;
    this.chosen = name;
    for (const each of [former, name]) if (each !== null) this.restyle(each);
    this.fences.get(name)?.layer?.bringToFront();
  }

  restyle(name) {
    const fence = this.fences.get(name);
    fence?.layer?.setStyle(this.style(name, fence));
  }

  restyleAll() {
    for (const name of this.fences.keys()) this.restyle(name);
  }

  style(name, fence) {
    const isChosen = name === this.chosen;
    return {
      color: colour(isChosen ? "accent" : "fence"),
      weight: isChosen ? 3 : 1,
      dashArray: fence.state === "drawn" ? "6 5" : null,
      fillColor: colour(fence.inside ? "full" : "fence"),
      fillOpacity: fence.inside ? 0.08 + 0.42 * Math.min(1, fence.inside / FULL) : 0.05,
    };
  }

  clear() {
    for (const fence of this.fences.values()) fence.layer?.remove();
    this.fences.clear();
  }

  bounds() {
    const found = L.latLngBounds([]);
    for (const fence of this.fences.values()) if (fence.layer) found.extend(fence.layer.getBounds());
    return found;
  }
}
