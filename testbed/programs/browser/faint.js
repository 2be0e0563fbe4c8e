// The texts that stand out too little from what is behind them, as they are drawn now: their contrast (WCAG 2.2,
// relative luminance) is below the one that is given.  What is disabled is not read.
const least = arguments[0];
const pen = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
const colours = new Map();
const colour = (text) => {
  if (!colours.has(text)) {
    pen.clearRect(0, 0, 1, 1);
    pen.fillStyle = text;
    pen.fillRect(0, 0, 1, 1);
    const [r, g, b, a] = pen.getImageData(0, 0, 1, 1).data;
    colours.set(text, [r, g, b, a / 255]);
  }
  return colours.get(text);
};
const over = (above, part, below) => above.slice(0, 3).map((value, index) => value * part + below[index] * (1 - part));
const light = (rgb) => {
  const [r, g, b] = rgb.map((value) => (value / 255 <= 0.04045 ? value / 255 / 12.92 : ((value / 255 + 0.055) / 1.055) ** 2.4));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
const contrast = (one, other) => {
  const [high, low] = [light(one), light(other)].sort((a, b) => b - a);
  return (high + 0.05) / (low + 0.05);
};

// What is drawn on an element, from the page's ground up; the drawing puts a text on the shape beside it.
const shapeOf = (element) => {
  if (!(element instanceof SVGElement) || !(element instanceof SVGTextElement)) return null;
  const group = element.closest(".job, .topic, .site");
  return group?.querySelector(element.classList.contains("mark") ? ".mark-ground" : ".card, .site-box, rect:not(.ring)");
};
const colourOf = (element) => {
  const path = [];
  for (let at = element; at; at = at.parentElement) path.unshift(at);
  let ground = [255, 255, 255];
  const faded = [];
  for (const each of path) {
    const style = getComputedStyle(each);
    if (Number(style.opacity) < 1) faded.push([Number(style.opacity), ground]);
    const [r, g, b, a] = colour(style.backgroundColor);
    ground = over([r, g, b], a, ground);
  }
  const shape = shapeOf(element);
  const style = getComputedStyle(element);
  if (shape) {
    const [r, g, b, a] = colour(getComputedStyle(shape).fill);
    ground = over([r, g, b], a * Number(getComputedStyle(shape).fillOpacity), ground);
  }
  const [r, g, b, a] = colour(element instanceof SVGElement ? style.fill : style.color);
  let text = over([r, g, b], a, ground);
  for (const [part, behind] of faded.reverse()) [text, ground] = [over(text, part, behind), over(ground, part, behind)];
  return [text, ground];
};

const shown = (element) => {
  const box = element.getBoundingClientRect();
  if (box.width < 2 || box.height < 2 || element.closest(".unseen, option, :disabled, script, style, title, noscript")) return false;
  return getComputedStyle(element).visibility === "visible";
};
const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
const found = [];
let looked = 0;
for (let node = walker.nextNode(); node; node = walker.nextNode()) {
  if (!node.data.trim() || !shown(node.parentElement)) continue;
  looked += 1;
  const how = contrast(...colourOf(node.parentElement));
  if (how < least) found.push([node.data.trim(), node.parentElement.getAttribute("class"), Math.round(how * 100) / 100]);
}
return { looked, found };
