// The colours of the style sheet for a canvas, which knows neither variables nor the colour scheme.
const probe = document.body.appendChild(Object.assign(document.createElement("span"), { className: "probe" }));

let known = new Map();

export const colour = (name) => {
  if (!known.has(name)) {
    probe.style.color = `var(--${name})`;
    known.set(name, getComputedStyle(probe).color);
  }
  return known.get(name);
};

export const colourOfSite = (number) => {
  const name = `site-${number % 6}`;
  if (!known.has(name)) {
    probe.style.color = "";
    probe.className = `probe ${name}`;
    known.set(name, getComputedStyle(probe).color);
    probe.className = "probe";
  }
  return known.get(name);
};

export const whenColoursChange = (action) => {
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
    known = new Map();
    action();
  });
};
