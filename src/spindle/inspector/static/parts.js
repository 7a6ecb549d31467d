// @ts-check
// Small parts that all views share.

import { ApiError, isAborted } from "./api.js";
import { append, byId, h, replace } from "./dom.js";
import { toJson } from "./format.js";

/** @typedef {import("./dom.js").Children} Children */
/** @typedef {"ok" | "error" | "warn" | "wait" | "quiet" | "accent"} Tone */

/**
 * A small label.
 * @param {Children} text
 * @param {Tone} [tone]
 * @param {string} [title]
 */
export function badge(text, tone = "quiet", title) {
  return h("span", { class: `badge ${tone}`, title }, text);
}

/**
 * What leads from the chosen thing to the list on a phone, where only one of them is shown.
 * @param {string | (() => void)} target   an address, or what is done
 */
export function backControl(target) {
  const label = { "aria-label": "Back to the list" };
  return typeof target === "string" ? h("a", { class: "button back", href: target, ...label }, "‹ Back") : h("button", { class: "back", onclick: target, ...label }, "‹ Back");
}

/**
 * Explain an error.
 * @param {unknown} error
 */
export function showError(error) {
  const text = error instanceof Error ? error.message : String(error);
  return h("div", { class: "problem", role: "alert" }, h("strong", {}, error instanceof ApiError && error.status !== 0 ? "Refused. " : "Failed. "), text);
}

/**
 * What a view shows while it has nothing to show.
 * @param {string} title
 * @param {...Children} more
 */
export function emptyState(title, ...more) {
  return h("div", { class: "empty-state" }, h("p", { class: "title" }, title), h("div", {}, ...more));
}

/**
 * Facts in two columns; rows without a value are left out.
 * @param {[label: string, value: Children][]} rows
 */
export function facts(rows) {
  const list = h("dl", { class: "facts" });
  for (const [label, value] of rows) {
    if (value === null || value === undefined || value === "" || value === false) continue;
    append(list, [h("dt", {}, label), h("dd", {}, value)]);
  }
  return list;
}

/**
 * Text as it is, in monospace, with a button that copies it.
 * @param {string} text
 * @param {{label?: string, maxChars?: number, wrap?: boolean}} [options]
 */
export function codeBlock(text, { label = "Text", maxChars = 100_000, wrap = true } = {}) {
  const shown = text.length > maxChars ? text.slice(0, maxChars) : text;
  const block = h("div", { class: "code-block" });
  const body = h("pre", { class: wrap ? "wrap" : "", tabindex: 0, "aria-label": label }, shown);
  const copy = h("button", { class: "quiet copy", title: `Copy ${label.toLowerCase()}`, onclick: () => void copyText(text) }, "Copy");
  append(block, [body, copy]);
  if (shown.length < text.length) append(block, [h("p", { class: "hint" }, `${(text.length - shown.length).toLocaleString("en-US")} more characters are not shown.`)]);
  return block;
}

/**
 * A value as formatted JSON.
 * @param {unknown} value
 * @param {string} label
 */
export function jsonBlock(value, label) {
  return codeBlock(toJson(value), { label });
}

/** @param {string} text */
export async function copyText(text) {
  try {
    await navigator.clipboard.writeText(text);
    toast("Copied");
  } catch {
    toast("The browser does not allow copying here", "error");
  }
}

/**
 * Tell something at the edge of the page for a moment.
 * @param {string} text
 * @param {"ok" | "error"} [tone]
 */
export function toast(text, tone = "ok") {
  const note = h("div", { class: `toast ${tone}` }, text);
  byId("toasts").appendChild(note);
  setTimeout(() => note.remove(), tone === "error" ? 8000 : 3000);
}

/**
 * A section with a heading, which can be closed if it is `isFoldable`.
 * @param {string} title
 * @param {Children} content
 * @param {{isFoldable?: boolean, isOpen?: boolean, more?: Children}} [options]
 */
export function section(title, content, { isFoldable = false, isOpen = true, more } = {}) {
  if (isFoldable) {
    return h("details", { class: "section", open: isOpen }, h("summary", {}, h("h2", {}, title), more), content);
  }
  return h("section", { class: "section" }, h("header", {}, h("h2", {}, title), more), content);
}

/**
 * Tabs; each draws its panel when it is first chosen.
 * @param {string} label
 * @param {{id: string, title: Children, draw: (panel: HTMLElement) => void}[]} tabs
 * @param {{selected?: string, onSelect?: (id: string) => void}} [options]
 */
export function tabs(label, tabs, { selected, onSelect } = {}) {
  const list = h("div", { class: "tabs", role: "tablist", "aria-label": label });
  const own = Math.random().toString(36).slice(2);
  const panel = h("div", { class: "tab-panel", role: "tabpanel", id: `panel-${own}`, tabindex: 0 });
  /** @param {string} id */
  const choose = (id) => {
    for (const button of list.querySelectorAll("button")) {
      const isChosen = button.dataset["tab"] === id;
      button.setAttribute("aria-selected", String(isChosen));
      button.tabIndex = isChosen ? 0 : -1;
      if (isChosen) panel.setAttribute("aria-labelledby", button.id);
    }
    replace(panel);
    tabs.find((tab) => tab.id === id)?.draw(panel);
  };
  for (const tab of tabs) {
    const button = h("button", { role: "tab", id: `tab-${own}-${tab.id}`, "aria-controls": panel.id, dataset: { tab: tab.id } }, tab.title);
    button.addEventListener("click", () => {
      choose(tab.id);
      onSelect?.(tab.id);
    });
    list.appendChild(button);
  }
  list.addEventListener("keydown", (event) => {
    const buttons = [...list.querySelectorAll("button")];
    const at = buttons.findIndex((button) => button === document.activeElement);
    const step = event.key === "ArrowRight" ? 1 : event.key === "ArrowLeft" ? -1 : 0;
    if (step === 0 || at < 0) return;
    const next = buttons[(at + step + buttons.length) % buttons.length];
    next?.focus();
    next?.click();
  });
  choose(selected ?? tabs[0]?.id ?? "");
  return h("div", { class: "tabbed" }, list, panel);
}

/**
 * Ask a question in a dialog; resolves to whether it was confirmed. A third button does something else instead.
 * @param {{title: string, content: Children, confirm: string, tone?: "primary" | "danger", canCancel?: boolean, instead?: {title: string, run: () => void}}} options
 * @returns {Promise<boolean>}
 */
export function ask({ title, content, confirm, tone = "primary", canCancel = true, instead }) {
  return new Promise((resolve) => {
    const dialog = h("dialog", { class: "ask", "aria-label": title });
    const close = (/** @type {boolean} */ answer) => {
      dialog.close();
      dialog.remove();
      resolve(answer);
    };
    const runInstead = () => {
      close(false);
      instead?.run();
    };
    append(dialog, [
      h("h2", {}, title),
      h("div", {}, content),
      h("div", { class: "buttons" }, canCancel && h("button", { onclick: () => close(false) }, "Cancel"), instead && h("button", { onclick: runInstead }, instead.title), h("button", { class: tone, onclick: () => close(true) }, confirm)),
    ]);
    dialog.addEventListener("cancel", () => close(false));
    document.body.appendChild(dialog);
    dialog.showModal();
  });
}

/**
 * Load something into an element: shows errors there, and gives up when the view is left.
 * @template Answer
 * @param {HTMLElement} target
 * @param {Promise<Answer>} promise
 * @param {(answer: Answer) => Children} draw
 */
export async function load(target, promise, draw) {
  target.setAttribute("aria-busy", "true");
  try {
    replace(target, draw(await promise));
  } catch (error) {
    if (!isAborted(error)) replace(target, showError(error));
  } finally {
    target.removeAttribute("aria-busy");
  }
}

/**
 * Draw something again; what was unfolded in it stays unfolded.
 * @param {HTMLElement} target
 * @param {Children} content
 */
export function redraw(target, content) {
  const open = new Set([...target.querySelectorAll("details[open]")].map((each) => each.id));
  replace(target, content);
  for (const each of target.querySelectorAll("details")) if (open.has(each.id)) each.open = true;
}

/**
 * Call a function a little after the last of several calls.
 * @template {unknown[]} Args
 * @param {(...args: Args) => void} call
 * @param {number} [ms]
 * @returns {(...args: Args) => void}
 */
export function debounce(call, ms = 200) {
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let timer;
  return (...args) => {
    clearTimeout(timer);
    timer = setTimeout(() => call(...args), ms);
  };
}

/**
 * Two panes side by side: a list, and what is chosen in it. On a phone only one of them is shown.
 * @param {HTMLElement} first
 * @param {HTMLElement} second
 */
export function panes(first, second) {
  first.classList.add("pane", "first");
  second.classList.add("pane", "second");
  const element = h("div", { class: "panes" }, first, second);
  return {
    element,
    /** @param {boolean} hasChoice */
    choose(hasChoice) {
      element.classList.toggle("has-choice", hasChoice);
    },
  };
}
