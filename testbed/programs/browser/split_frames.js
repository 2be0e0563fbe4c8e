// The names of the jobs in each frame of a split.
const inside = (outer, inner) =>
  outer.left <= inner.left && inner.right <= outer.right && outer.top <= inner.top && inner.bottom <= outer.bottom;
const cards = [...document.querySelectorAll("[data-job]")];
return [...document.querySelectorAll(".split rect")].map((frame) =>
  cards
    .filter((card) => inside(frame.getBoundingClientRect(), card.querySelector(".card").getBoundingClientRect()))
    .map((card) => card.dataset.job),
);
