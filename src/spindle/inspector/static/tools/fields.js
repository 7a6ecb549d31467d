// @ts-check
// Fields of a form for single values: text, numbers, choices, files, and JSON for everything else.

import { h, replace } from "../dom.js";
import { findInexact } from "../exact.js";
import { formatBytes } from "../format.js";
import { clip } from "./schema.js";

/** @typedef {string | number} Step */
/** @typedef {import("./schema.js").Shape} Shape */

/**
 * A part of a form. `get` returns `undefined` for a value that is left out; `set` returns false for a value that the
 * field cannot show, and clears the field if it gets `undefined`.
 * @typedef {object} Field
 * @property {HTMLElement} element
 * @property {() => unknown} get
 * @property {(value: unknown) => boolean} set
 * @property {(path: Step[]) => Field | null} at      the field of an inner value
 * @property {(message: string | null) => void} mark  show an error, or remove it
 */

/**
 * @typedef {object} Options
 * @property {string} name
 * @property {string} [label]                         its accessible name, if it differs
 * @property {Shape} shape
 * @property {boolean} isRequired
 * @property {boolean} isSecret
 * @property {string} words                           which values are accepted
 */

const MAX_FILE_BYTES = 2_000_000;
const LONG_NAMES = /^(content|contents|text|body|message|description|prompt|script|code|sql|html|markdown|notes?|old|new|data|comment|reason|payload)$/i;
let count = 0;

/** Return an id that no other element has. */
export function makeId() {
  count += 1;
  return `field-${count}`;
}

/**
 * Put a control into its frame: label, words about the value, description, error.
 * @param {Options} options
 * @param {HTMLElement} control
 * @param {HTMLElement} [input]  what the label belongs to
 */
export function frame(options, control, input) {
  const id = makeId();
  const error = h("p", { class: "field-error", id: `${id}-error`, hidden: true });
  const about = clip(options.shape.schema["description"]);
  const hint = about === "" ? null : h("p", { class: "hint", id: `${id}-hint` }, about);
  const words = h("span", { class: "field-words" }, options.words);
  const name = [clip(options.name, 120), options.isRequired && h("span", { class: "required", title: "Required", "aria-hidden": "true" }, " *")];
  const label = input === undefined ? h("span", { class: "field-name" }, name) : h("label", { class: "field-name", for: id }, name);
  if (input !== undefined) {
    input.id = id;
    input.setAttribute("aria-describedby", `${id}-error${hint === null ? "" : ` ${id}-hint`}`);
    if (options.isRequired) input.setAttribute("aria-required", "true");
  }
  const head = h("div", { class: "field-head" }, label, words);
  const element = h("div", { class: "field" }, head, control, hint, error);
  /** @param {string | null} message */
  const mark = (message) => {
    error.hidden = message === null;
    error.textContent = message ?? "";
    if (input !== undefined) {
      if (message === null) input.removeAttribute("aria-invalid");
      else input.setAttribute("aria-invalid", "true");
    }
  };
  return { element, mark, head };
}

/**
 * A text: one line, many lines, a password, a date, or the content of a file.
 * @param {Options} options
 * @returns {Field}
 */
export function textField(options) {
  const { schema } = options.shape;
  const format = typeof schema["format"] === "string" ? schema["format"] : "";
  const isFile = typeof schema["contentEncoding"] === "string" || typeof schema["contentMediaType"] === "string" || format === "binary" || format === "byte";
  const isSecret = options.isSecret || format === "password" || schema["writeOnly"] === true;
  const isLong = isFile || LONG_NAMES.test(options.name) || Number(schema["maxLength"]) >= 10_000;
  /** @type {string | null | undefined} */
  let given;
  const holder = h("div", { class: "field-control" });
  const types = /** @type {Record<string, string>} */ ({ date: "date", email: "email", time: "text" });
  /** @type {HTMLInputElement | HTMLTextAreaElement} */
  let input = h("input", { type: isSecret ? "password" : (types[format] ?? "text"), autocomplete: "off", spellcheck: "false" });
  if (isLong && !isSecret) input = h("textarea", { rows: 3, spellcheck: "false" });
  const { element, mark } = frame(options, holder, input);
  const suggestions = listExamples(schema);
  const show = () => {
    input.value = given ?? "";
    input.placeholder = given === null ? "null" : findPlaceholder(schema, format);
  };
  const listen = () => {
    input.addEventListener("input", () => {
      given = input.value === "" && (!options.isRequired || given === undefined) ? undefined : input.value;
      mark(null);
    });
  };
  const grow = () => {
    const area = h("textarea", { rows: 4, spellcheck: "false", id: input.id, "aria-describedby": input.getAttribute("aria-describedby") });
    input.replaceWith(area);
    input = area;
    listen();
    show();
  };
  /** @param {unknown} value */
  const set = (value) => {
    if (value !== undefined && value !== null && typeof value !== "string") return false;
    given = value;
    if (input instanceof HTMLInputElement && !isSecret && typeof value === "string") {
      if (/[\r\n]/.test(value)) grow();
      else if (input.type === "date" && !/^\d{4}-\d\d-\d\d$/.test(value)) input.type = "text";
    }
    show();
    mark(null);
    return true;
  };
  listen();
  show();
  replace(holder, input);
  if (suggestions.length > 0 && input instanceof HTMLInputElement && !isSecret) {
    const list = h("datalist", { id: makeId() }, suggestions.map((each) => h("option", { value: each })));
    input.setAttribute("list", list.id);
    holder.append(list);
  }
  if (format === "date-time") holder.append(h("button", { type: "button", class: "quiet", onclick: () => set(new Date().toISOString()) }, "Now"));
  if (isLong && !isSecret) holder.append(filePicker(options, schema["contentEncoding"] === "base64" || format === "byte", set, mark));
  return leaf({ element, get: () => given, set, mark });
}

/**
 * Complete a field without inner values.
 * @param {Omit<Field, "at">} parts
 * @returns {Field}
 */
function leaf(parts) {
  /** @type {Field} */
  const field = { ...parts, at: (path) => (path.length === 0 ? field : null) };
  return field;
}

/**
 * @param {import("./schema.js").Schema} schema
 * @param {string} format
 */
function findPlaceholder(schema, format) {
  if (schema["default"] !== undefined && schema["default"] !== null) return clip(String(schema["default"]), 120);
  if (format === "date-time") return "2026-01-31T12:00:00Z";
  return listExamples(schema)[0] ?? "";
}

/** @param {import("./schema.js").Schema} schema */
function listExamples(schema) {
  const given = Array.isArray(schema["examples"]) ? schema["examples"] : [];
  return given.filter((each) => typeof each === "string" || typeof each === "number").slice(0, 10).map((each) => clip(String(each), 200));
}

/**
 * @param {Options} options
 * @param {boolean} isBase64
 * @param {(value: string) => void} onText
 * @param {(message: string | null) => void} mark
 */
function filePicker(options, isBase64, onText, mark) {
  const picker = h("input", { type: "file", class: "file", "aria-label": `File for ${clip(options.name, 60)}` });
  picker.addEventListener("change", async () => {
    const file = picker.files?.[0];
    picker.value = "";
    if (file === undefined) return;
    if (file.size > MAX_FILE_BYTES) {
      mark(`The file has ${formatBytes(file.size)}; at most ${formatBytes(MAX_FILE_BYTES)} fit here.`);
      return;
    }
    try {
      onText(isBase64 ? await readBase64(file) : await file.text());
    } catch {
      mark("The file cannot be read.");
    }
  });
  const button = h("button", { type: "button", class: "quiet", onclick: () => picker.click() }, "From a file…");
  return h("span", { class: "file-picker" }, button, picker);
}

/** @param {File} file @returns {Promise<string>} */
function readBase64(file) {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(String(reader.result).replace(/^[^,]*,/, ""));
    reader.onerror = () => reject(reader.error);
    reader.readAsDataURL(file);
  });
}

/**
 * A number, within its bounds.
 * @param {Options} options
 * @returns {Field}
 */
export function numberField(options) {
  const { schema, kind } = options.shape;
  const isWhole = kind === "integer";
  /** @type {number | null | undefined} */
  let given;
  const bound = (/** @type {unknown} */ value) => (typeof value === "number" ? value : undefined);
  const input = h("input", { type: "number", step: isWhole ? 1 : "any", min: bound(schema["minimum"]), max: bound(schema["maximum"]), autocomplete: "off" });
  const { element, mark } = frame(options, h("div", { class: "field-control" }, input), input);
  const show = () => {
    input.value = given === undefined || given === null ? "" : String(given);
    input.placeholder = given === null ? "null" : findPlaceholder(schema, "");
  };
  input.addEventListener("input", () => {
    const value = input.value === "" ? undefined : Number(input.value);
    const isUnsafe = value !== undefined && (isWhole || Number.isInteger(value)) && !Number.isSafeInteger(value);
    given = value;
    input.toggleAttribute("data-bad", input.validity.badInput || isUnsafe);
    if (input.validity.badInput) mark("Expected a number.");
    else if (isUnsafe) mark(Number.isInteger(value) ? "This number is too large for the form; write it as JSON." : "Expected a whole number.");
    else mark(null);
  });
  show();
  return leaf({
    element,
    mark,
    get: () => given,
    set(value) {
      if (value !== undefined && value !== null && typeof value !== "number") return false;
      given = value;
      input.removeAttribute("data-bad");
      show();
      mark(null);
      return true;
    },
  });
}

/**
 * One of several values: an enum, or yes and no.
 * @param {Options} options
 * @param {unknown[]} choices
 * @returns {Field}
 */
export function choiceField(options, choices) {
  const { schema, isNullable } = options.shape;
  const all = isNullable ? [...choices, null] : choices;
  const texts = all.map((each) => (typeof each === "string" ? clip(each, 200) : clip(JSON.stringify(each), 200)));
  const unset = schema["default"] === undefined ? (options.isRequired ? "Choose…" : "Left out") : `Default: ${clip(typeof schema["default"] === "string" ? schema["default"] : JSON.stringify(schema["default"]), 60)}`;
  const select = h(
    "select",
    {},
    h("option", { value: "" }, unset),
    texts.map((text, index) => h("option", { value: index }, text)),
  );
  const { element, mark } = frame(options, h("div", { class: "field-control" }, select), select);
  select.addEventListener("change", () => mark(null));
  return leaf({
    element,
    mark,
    get: () => (select.value === "" ? undefined : all[Number(select.value)]),
    set(value) {
      const index = value === undefined ? -1 : all.findIndex((each) => JSON.stringify(each) === JSON.stringify(value));
      select.value = index < 0 ? "" : String(index);
      mark(null);
      return value === undefined || index >= 0;
    },
  });
}

/**
 * A value that cannot be changed.
 * @param {Options} options
 * @param {unknown} value
 * @returns {Field}
 */
export function fixedField(options, value) {
  const { element, mark } = frame(options, h("code", { class: "fixed" }, clip(JSON.stringify(value) ?? "", 300)));
  return leaf({
    element,
    mark,
    get: () => value,
    set: (other) => other === undefined || JSON.stringify(other) === JSON.stringify(value),
  });
}

/**
 * Any value, written as JSON: for what the form has no field for.
 * @param {Options} options
 * @returns {Field}
 */
export function jsonField(options) {
  const area = h("textarea", { rows: 3, spellcheck: "false", placeholder: "JSON" });
  const { element, mark } = frame(options, h("div", { class: "field-control" }, area), area);
  /** @type {unknown} */
  let given;
  area.addEventListener("input", () => {
    area.removeAttribute("data-bad");
    mark(null);
    try {
      given = area.value.trim() === "" ? undefined : JSON.parse(area.value);
      const inexact = findInexact(area.value);
      if (inexact !== null && Math.abs(Number(inexact)) > Number.MAX_SAFE_INTEGER) {
        area.setAttribute("data-bad", "");
        mark(`The form would change the number ${clip(inexact, 40)}; write the arguments as JSON.`);
      }
    } catch (error) {
      given = undefined;
      area.setAttribute("data-bad", "");
      mark(`This is not JSON: ${error instanceof Error ? error.message : ""}`);
    }
  });
  return leaf({
    element,
    mark,
    get: () => given,
    set(value) {
      given = value;
      area.value = value === undefined ? "" : (JSON.stringify(value, null, 2) ?? "");
      area.removeAttribute("data-bad");
      mark(null);
      return true;
    },
  });
}
