// The texts of elements of two selectors that lie one over the other, by more than a pixel.
const boxes = (what) => [...document.querySelectorAll(what)].map((each) => [each, each.getBoundingClientRect()]);
const over = (one, two) =>
  one.left < two.right - 1 && two.left < one.right - 1 && one.top < two.bottom - 1 && two.top < one.bottom - 1;
return boxes(arguments[0]).flatMap(([each, box]) =>
  boxes(arguments[1])
    .filter(([other, its]) => each !== other && box.width && its.width && over(box, its))
    .map(([other]) => `${each.textContent} / ${other.textContent}`),
);
