// What every component needs.  Text from anywhere goes through `html`, which never makes markup of it.
import { Component, h, render } from "./vendor/preact.js";
import htm from "./vendor/htm.js";

export { render };
export { useEffect, useMemo, useRef, useState } from "./vendor/preact-hooks.js";
export const html = htm.bind(h);

const same = (a, b) => {
  const keys = Object.keys(a);
  return keys.length === Object.keys(b).length && keys.every((key) => Object.is(a[key], b[key]));
};

// A component that is drawn again only when one of its properties is another: most of 500 jobs stay as they are.
export const steady = (draw) =>
  class extends Component {
    shouldComponentUpdate(next) {
      return !same(this.props, next);
    }

    render(properties) {
      return draw(properties);
    }
  };

// The element's class: the names whose condition holds.
export const names = (...parts) => parts.filter(Boolean).join(" ");
