// @ts-check
// What happened to a call: the waterfall of its batch, and its events. Loads itself when it is shown.

import { get, isAborted } from "../api.js";
import { h, replace } from "../dom.js";
import { formatDuration } from "../format.js";
import { section, showError } from "../parts.js";
import { renderWaterfall } from "./waterfall.js";

/** @typedef {import("./waterfall.js").Batch} Batch */

/**
 * A place that loads and draws the batch of a call.
 * @param {string} key
 * @returns {HTMLElement}
 */
export function drawTrace(key) {
  const place = h("div", { class: "call-trace", "aria-busy": "true", dataset: { key } });
  void load(place, key);
  return place;
}

/**
 * @param {HTMLElement} place
 * @param {string} key
 */
async function load(place, key) {
  try {
    const batch = /** @type {Batch} */ (await get(`/calls/${encodeURIComponent(key)}/batch`));
    if (batch.batch_id === null) return;
    const own = batch.calls.find((call) => call.key === key);
    replace(
      place,
      section("In its batch", renderWaterfall(batch, { chosen: key })),
      own !== undefined && own.events.length > 0 && section("Events", drawEvents(own.events)),
    );
  } catch (error) {
    if (!isAborted(error)) replace(place, showError(error));
  } finally {
    place.removeAttribute("aria-busy");
  }
}

/**
 * What a call emitted, with the time since its batch began; what was before it, such as a question, has no time.
 * @param {import("./waterfall.js").CallEvent[]} events
 */
export function drawEvents(events) {
  return h(
    "ol",
    { class: "call-events" },
    events.map((event) =>
      h(
        "li",
        {},
        h("span", { class: "number muted" }, event.at_ms < 0 ? `${formatDuration(-event.at_ms)} before` : formatDuration(event.at_ms)),
        h("span", { class: `badge ${event.kind === "warning" ? "warn" : event.kind === "approval" ? "wait" : "quiet"}` }, event.kind),
        h("span", { class: "event-text" }, event.text),
      ),
    ),
  );
}
