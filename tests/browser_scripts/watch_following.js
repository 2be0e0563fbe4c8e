// Notes from now on in `window.why` why the page does not follow, and counts with `window.asked()` how often it began to.
window.why = [];
window.asked = () => performance.getEntriesByType("resource").filter((each) => each.name.endsWith("/whoami")).length;
new MutationObserver(() => window.why.push(document.querySelector(".live").title)).observe(document.querySelector(".head"), {
  subtree: true,
  childList: true,
  attributes: true,
});
