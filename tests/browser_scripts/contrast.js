// The contrast of each pair of colours, named as the style sheet names them (WCAG 2.2, relative luminance).
const probe = document.body.appendChild(document.createElement("i"));
const light = (name) => {
  const pen = document.createElement("canvas").getContext("2d");
  probe.style.color = `var(--${name})`;
  pen.fillStyle = getComputedStyle(probe).color;
  pen.fillRect(0, 0, 1, 1);
  const [r, g, b] = [...pen.getImageData(0, 0, 1, 1).data].slice(0, 3).map((value) => {
    const part = value / 255;
    return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
const found = arguments[0].map(([text, ground]) => {
  const [one, other] = [light(text), light(ground)].sort((a, b) => b - a);
  return [text, ground, (one + 0.05) / (other + 0.05)];
});
probe.remove();
return found;
