// The chosen face, set before anything is drawn, so that the page does not flash in the other one.
"use strict";
{
  const chosen = localStorage.getItem("speck-face");
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.face = chosen;
}
