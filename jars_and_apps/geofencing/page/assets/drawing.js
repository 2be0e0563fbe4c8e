// Drawing by hand: each click on the map is a corner, which may be dragged.
import { colour } from "./colours.js";

const ICON = { className: "corner", iconSize: [14, 14] };

export class Drawing {
  constructor(map) {
    this.map = map;
    this.corners = null; // markers; null while nothing is drawn
  }

  get isOn() {
    return this.corners !== null;
  }

  begin() {
    this.end();
    this.corners = [];
    this.shape = L.polygon([], { color: colour("accent"), weight: 2, dashArray: "6 5", interactive: false }).addTo(this.map);
    this.map.doubleClickZoom.disable();
    this.map.getContainer().classList.add("drawing");
  }

  add(latlng) {
    const corner = L.marker(latlng, { icon: L.divIcon(ICON), draggable: true, keyboard: false });
    corner.on("drag", () => this.show());
    corner.addTo(this.map);
    this.corners.push(corner);
    this.show();
  }

  undo() {
    this.corners.pop()?.remove();
    this.show();
  }

  show() {
    this.shape.setLatLngs(this.corners.map((corner) => corner.getLatLng()));
  }

  // The polygon as GeoJSON; null if it has too few corners.
  geometry() {
    if (this.corners.length < 3) return null;
    const ring = this.corners.map((corner) => {
      const { lng, lat } = corner.getLatLng();
      return [Number(lng.toFixed(6)), Number(lat.toFixed(6))];
    });
    return { type: "Polygon", coordinates: [[...ring, ring[0]]] };
  }

  end() {
    if (!this.isOn) return;
    for (const corner of this.corners) corner.remove();
    this.shape.remove();
    this.corners = null;
    this.map.doubleClickZoom.enable();
    this.map.getContainer().classList.remove("drawing");
  }
}
