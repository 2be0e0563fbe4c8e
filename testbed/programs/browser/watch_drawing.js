// Notes from now on in `window.drawn` the names of the jobs in the graph of which anything is drawn again.
window.drawn = new Set();
const jobOf = (node) => (node.closest ? node : node.parentNode).closest("[data-job]")?.dataset.job;
new MutationObserver((changes) => {
  for (const { target } of changes) window.drawn.add(jobOf(target));
}).observe(document.querySelector(".canvas svg"), {
  subtree: true,
  childList: true,
  attributes: true,
  characterData: true,
});
