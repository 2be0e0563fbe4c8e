// The layer of movers: dots that glide from position to position, and rings where an event was.
import { colour, colourOfSite } from "./colours.js";

const GLIDE = matchMedia("(prefers-reduced-motion: reduce)").matches ? 0 : 400; // ms
const RING = 1200; // ms that a ring is seen
const MOST_RINGS = 200;
const NEAR = 12; // px, from which a click is on a mover
const OUTER = 14; // px, of a ring at its end

export const Movers = L.Layer.extend({
  initialize() {
    this.movers = new Map(); // by name {from, to, since, site}
    this.rings = [];
    this.chosen = null;
    this.sites = [];
  },

  onAdd(map) {
    const pane = map.createPane("movers");
    this.canvas = L.DomUtil.create("canvas", "leaflet-zoom-hide", pane);
    this.canvas.setAttribute("aria-hidden", "true");
    map.on("move moveend zoomend viewreset resize", this.place, this);
    this.place();
  },

  place() {
    const size = this._map.getSize();
    const ratio = devicePixelRatio || 1;
    L.DomUtil.setPosition(this.canvas, this._map.containerPointToLayerPoint([0, 0]));
    if (this.canvas.width !== Math.round(size.x * ratio) || this.canvas.height !== Math.round(size.y * ratio)) {
      this.canvas.width = Math.round(size.x * ratio);
      this.canvas.height = Math.round(size.y * ratio);
      this.canvas.style.width = `${size.x}px`;
      this.canvas.style.height = `${size.y}px`;
    }
    this.draw(performance.now());
  },

  move(name, longitude, latitude, site) {
    const known = this.movers.get(name);
    const now = performance.now();
    const to = [latitude, longitude];
    const from = known ? at(known, now) : to;
    this.movers.set(name, { from, to, since: now, site: this.sites.indexOf(site) });
    this.ask();
  },

  ring(position, kind) {
    if (this.rings.length >= MOST_RINGS || document.hidden) return;
    this.rings.push({ at: [position[1], position[0]], since: performance.now(), tone: kind === "enter" ? "good" : "bad" });
    this.ask();
  },

  // The place of a mover; null if it is not known.
  placeOf(name) {
    return this.movers.get(name)?.to ?? null;
  },

  // The name of the mover that is nearest to a point on the map; null if none is near.
  nearest(latlng) {
    const point = this._map.latLngToContainerPoint(latlng);
    let found = null;
    let least = NEAR;
    for (const [name, mover] of this.movers) {
      const away = this._map.latLngToContainerPoint(mover.to).distanceTo(point);
      if (away < least) [found, least] = [name, away];
    }
    return found;
  },

  choose(name) {
    this.chosen = name;
    this.ask();
  },

  ask() {
    this.asked ??= requestAnimationFrame((now) => this.draw(now));
  },

  draw(now) {
    this.asked = undefined;
    if (!this._map) return;
    const ratio = devicePixelRatio || 1;
    const context = this.canvas.getContext("2d");
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, this.canvas.width, this.canvas.height);
    const isMoving = this.drawMovers(context, now);
    this.rings = this.rings.filter((ring) => now - ring.since < RING);
    for (const ring of this.rings) this.drawRing(context, ring, now);
    if (isMoving || this.rings.length) this.ask();
  },

  drawMovers(context, now) {
    const bySite = new Map();
    let isMoving = false;
    for (const mover of this.movers.values()) {
      isMoving ||= now - mover.since < GLIDE;
      if (!bySite.has(mover.site)) bySite.set(mover.site, []);
      bySite.get(mover.site).push(this._map.latLngToContainerPoint(at(mover, now)));
    }
    const radius = this._map.getZoom() > 11 ? 4 : 2.6;
    for (const [site, points] of bySite) {
      context.fillStyle = colourOfSite(Math.max(0, site));
      context.beginPath();
      for (const { x, y } of points) {
        context.moveTo(x + radius, y);
        context.arc(x, y, radius, 0, 2 * Math.PI);
      }
      context.fill();
    }
    const chosen = this.movers.get(this.chosen);
    if (chosen) circle(context, this._map.latLngToContainerPoint(at(chosen, now)), 9, colour("accent"), 3);
    return isMoving;
  },

  drawRing(context, ring, now) {
    const age = Math.max(0, now - ring.since) / RING;
    context.globalAlpha = 1 - age;
    circle(context, this._map.latLngToContainerPoint(ring.at), 3 + age * OUTER, colour(ring.tone), 2);
    context.globalAlpha = 1;
  },
});

const at = (mover, now) => {
  const share = GLIDE ? Math.min(1, Math.max(0, (now - mover.since) / GLIDE)) : 1;
  return [0, 1].map((each) => mover.from[each] + (mover.to[each] - mover.from[each]) * share);
};

const circle = (context, { x, y }, radius, tone, width) => {
  context.strokeStyle = tone;
  context.lineWidth = width;
  context.beginPath();
  context.arc(x, y, radius, 0, 2 * Math.PI);
  context.stroke();
};
