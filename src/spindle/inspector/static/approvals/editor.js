// @ts-check
// Editing the arguments of a call before it is approved; the server checks them against the tool's schema.

import { h, replace } from "../dom.js";
import { jsonBlock, section } from "../parts.js";
import { toEditable } from "./model.js";

/**
 * @typedef {object} Editor
 * @property {HTMLElement} element
 * @property {() => void} focus
 * @property {(text: string | null) => void} complain
 * @property {(isBusy: boolean) => void} setBusy
 */

/**
 * @param {import("./model.js").Detail} detail
 * @param {{onApprove: (args: string) => void, onCancel: () => void}} actions
 * @returns {Editor}
 */
export function createEditor(detail, { onApprove, onCancel }) {
  const text = toEditable(detail.args_text);
  const problem = h("div", { class: "problem", role: "alert", id: "edit-problem", hidden: true });
  const field = h("textarea", {
    id: "edit-args",
    class: "edit-args",
    spellcheck: "false",
    autocomplete: "off",
    "aria-describedby": "edit-hint edit-problem",
    rows: Math.min(24, Math.max(6, text.split("\n").length + 1)),
  });
  field.value = text;
  const complain = (/** @type {string | null} */ message) => {
    problem.hidden = message === null;
    replace(problem, message ?? "");
    field.setAttribute("aria-invalid", String(message !== null));
  };
  const submit = () => {
    const wrong = findProblem(field.value);
    complain(wrong);
    // The text itself: a number of JavaScript would change the digits of a large one.
    if (wrong === null) onApprove(field.value);
  };
  field.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey) && !event.repeat) {
      event.preventDefault();
      submit();
    } else if (event.key === "Escape") {
      event.preventDefault();
      event.stopPropagation();
      onCancel();
    }
  });
  const approve = h("button", { class: "primary", onclick: submit }, "Approve with these arguments");
  const element = h(
    "form",
    { class: "editor", onsubmit: (/** @type {Event} */ event) => event.preventDefault() },
    h("label", { for: "edit-args" }, "Arguments to run with"),
    field,
    problem,
    h("p", { class: "hint", id: "edit-hint" }, "JSON. A value *** is a secret: leave it where it is, and it stays as it was. Ctrl+Enter approves, Escape cancels."),
    h("div", { class: "buttons" }, approve, h("button", { type: "button", onclick: onCancel }, "Cancel")),
    detail.input_schema !== null && section("The tool's schema", jsonBlock(detail.input_schema, "Schema"), { isFoldable: true, isOpen: false }),
  );
  return {
    element,
    focus: () => field.focus(),
    complain,
    setBusy(isBusy) {
      approve.disabled = isBusy;
      field.readOnly = isBusy;
    },
  };
}

/**
 * Return what is wrong with the text of arguments, or `null`.
 * @param {string} text
 */
function findProblem(text) {
  try {
    const value = JSON.parse(text);
    return typeof value === "object" && value !== null && !Array.isArray(value) ? null : "The arguments must be a JSON object: { … }.";
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
}
