// Layouts, one after the other, away from the page: that of hundreds of jobs takes longer than a frame lasts.
import { layout } from "./layout.js";

self.onmessage = ({ data: { number, graph, options } }) => {
  try {
    self.postMessage({ number, plan: layout(graph, options) });
  } catch (error) {
    self.postMessage({ number, error: String(error) });
  }
};
