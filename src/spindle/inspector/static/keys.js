// @ts-check
// The keys of the page, and those of each view, as a dialog.

import { h } from "./dom.js";
import { ask } from "./parts.js";

/** @typedef {[key: string, does: string]} Key */

/** @type {Key[]} */
const COMMON = [
  ["j k ↓ ↑", "next, previous"],
  ["Enter", "open"],
  ["g 1 … g 7", "go to a view"],
];
/** @type {Key} */
const SEARCH = ["/", "search"];
/** @type {Key} */
const HELP = ["?", "show these keys"];

/** @type {Record<string, Key[]>} */
const KEYS = {
  tools: [SEARCH, ["Ctrl+Enter", "run the tool"]],
  calls: [SEARCH, ["Escape", "close the call"]],
  turns: [SEARCH],
  artifacts: [SEARCH, ["n N", "next, previous hit, in Lines"]],
  approvals: [
    ["a", "approve and run"],
    ["d", "deny"],
    ["e", "edit the arguments"],
    ["Escape", "back to the list"],
  ],
  flow: [SEARCH],
};

/**
 * List the keys of a view.
 * @param {string} view
 */
export async function showKeys(view) {
  if (document.querySelector("dialog[open]") !== null) return;
  const keys = [...COMMON, ...(KEYS[view] ?? []), HELP];
  await ask({
    title: "Keys",
    content: h("dl", { class: "facts" }, keys.flatMap(([key, does]) => [h("dt", {}, h("kbd", {}, key)), h("dd", {}, does)])),
    confirm: "Close",
    canCancel: false,
  });
}
