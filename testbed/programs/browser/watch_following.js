// Counts with `window.asked()` how often the page began to follow.
window.asked = () => performance.getEntriesByType("resource").filter((each) => each.name.endsWith("/whoami")).length;
