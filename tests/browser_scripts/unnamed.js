// What can be operated and has no name to be read aloud.
const all = document.querySelectorAll("button, a, input, select, textarea, [role=button]");
const named = (each) => each.getAttribute("aria-label") || each.textContent.trim() || each.labels?.length;
return [...all].filter((each) => !named(each)).map((each) => each.outerHTML);
