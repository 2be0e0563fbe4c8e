// What the browser keeps for the page.  One that is told to keep nothing for any page refuses even to look: then the
// page does without.
export const kept = (place, name) => {
  try {
    return window[place].getItem(name);
  } catch {
    return null;
  }
};

export const keep = (place, name, value) => {
  try {
    if (value) window[place].setItem(name, value);
    else window[place].removeItem(name);
  } catch {
    // it is kept until the page is left
  }
};
