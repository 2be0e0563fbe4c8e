// The chosen face, set before anything is drawn, so that the page does not flash in the other one.
"use strict";
{
  let chosen = null;
  try {
    chosen = localStorage.getItem("speck-face");
  } catch {
    // a browser that keeps nothing (as in kept.js, which is a module, and would come too late)
  }
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.face = chosen;
}
