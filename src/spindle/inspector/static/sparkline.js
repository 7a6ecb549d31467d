// @ts-check
// A line without axes, for a few numbers in a row of text.

import { svg } from "./dom.js";

const WIDTH = 80;
const HEIGHT = 16;

/**
 * @param {number[]} values   oldest first
 */
export function drawSparkline(values) {
  const most = Math.max(...values, Number.MIN_VALUE);
  const step = WIDTH / Math.max(1, values.length - 1);
  const points = values.map((value, place) => `${(place * step).toFixed(1)} ${(HEIGHT - 1 - (value / most) * (HEIGHT - 2)).toFixed(1)}`);
  return svg("svg", { class: "sparkline", width: WIDTH, height: HEIGHT, "aria-hidden": "true", focusable: "false" }, svg("path", { class: "chart-stroke", d: `M${points.join("L")}` }));
}
