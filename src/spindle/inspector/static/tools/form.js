// @ts-check
// A form for a JSON Schema: objects, lists, maps and unions made of fields. Inner parts that may be left out are built
// when they are added, so that a schema that refers to itself unfolds as far as the user goes.

import { h, replace } from "../dom.js";
import { choiceField, fixedField, frame, jsonField, makeId, numberField, textField } from "./fields.js";
import { arrayField, mapField, tupleField } from "./lists.js";
import { MAX_DEPTH, classify, clip, describe, fits, isObject, nameBranch } from "./schema.js";

/** @typedef {import("./fields.js").Field} Field */
/** @typedef {import("./fields.js").Step} Step */
/** @typedef {import("./schema.js").Schema} Schema */
/** @typedef {import("./schema.js").Shape} Shape */

/**
 * @typedef {object} Place
 * @property {Schema} root
 * @property {string} name
 * @property {boolean} isRequired
 * @property {number} depth
 * @property {Set<string>} secrets    names of arguments that are secret
 * @property {{left: number}} room    how many fields may still be built
 * @property {boolean} [isBare]       whether the field around it has the name and the frame
 */

const MAX_FIELDS = 2_000;
const COMPOSITE = new Set(["object", "map", "array", "tuple", "union"]);

/**
 * Build the form of a tool's arguments; `null` if the schema cannot be a form.
 * @param {unknown} schema
 * @param {string[]} secrets
 * @returns {Field | null}
 */
export function buildForm(schema, secrets) {
  if (!isObject(schema)) return null;
  const shape = classify(schema, schema);
  if (shape.kind !== "object" && shape.kind !== "map" && shape.kind !== "union") return null;
  return build(schema, { root: schema, name: "", isRequired: true, depth: 0, secrets: new Set(secrets), room: { left: MAX_FIELDS } });
}

/**
 * Build the field of a schema.
 * @param {unknown} schema
 * @param {Place} place
 * @returns {Field}
 */
export function build(schema, place) {
  const shape = classify(schema, place.root);
  place.room.left -= 1;
  const options = {
    name: place.name,
    shape,
    isRequired: place.isRequired,
    isSecret: place.depth === 1 && place.secrets.has(place.name),
    words: describe(shape, place.root),
  };
  if (options.isSecret) options.words += ", secret";
  if (place.room.left < 0 || (place.depth > MAX_DEPTH && COMPOSITE.has(shape.kind))) return jsonField(options);
  if (shape.isNullable && COMPOSITE.has(shape.kind) && shape.kind !== "union") {
    return unionField({ ...options, shape: { ...shape, branches: [withoutNull(shape.schema)] } }, place);
  }
  switch (shape.kind) {
    case "text":
      return textField(options);
    case "number":
    case "integer":
      return numberField(options);
    case "boolean":
      return choiceField(options, [true, false]);
    case "enum":
      return choiceField(options, shape.choices);
    case "const":
      return fixedField(options, shape.schema["const"]);
    case "null":
      return fixedField(options, null);
    case "object":
      return objectField(options, place);
    case "map":
      return mapField(options, place);
    case "array":
      return arrayField(options, place);
    case "tuple":
      return tupleField(options, place);
    case "union":
      return unionField(options, place);
    default:
      return jsonField(options);
  }
}

/** @param {Schema} schema */
function withoutNull(schema) {
  return Array.isArray(schema["type"]) ? { ...schema, type: schema["type"].filter((each) => each !== "null") } : schema;
}

/**
 * The frame of a group of fields; the outermost one has none.
 * @param {import("./fields.js").Options} options
 * @param {Place} place
 * @param {HTMLElement} content
 */
export function group(options, place, content) {
  if (place.depth === 0 || place.isBare === true) {
    const error = h("p", { class: "field-error", hidden: true });
    const element = h("div", { class: "fields" }, error, content);
    return { element, mark: (/** @type {string | null} */ text) => ((error.hidden = text === null), (error.textContent = text ?? "")) };
  }
  const { element, mark, head } = frame(options, content);
  head.after(...element.querySelectorAll(":scope > .hint")); // what a group is comes before its fields
  content.classList.add("group");
  content.setAttribute("role", "group");
  content.setAttribute("aria-label", clip(options.name, 120));
  return { element, mark: (/** @type {string | null} */ text) => mark(text), head };
}

/**
 * A value that is only there once it is added.
 * @param {unknown} schema
 * @param {Place} place
 * @returns {Field}
 */
function optionalField(schema, place) {
  /** @type {Field | null} */
  let inner = null;
  const holder = h("div", { class: "optional" });
  const name = clip(place.name, 120);
  const add = h("button", { type: "button", class: "quiet add", onclick: () => focusFirst(open().element) }, `+ Add ${name}`);
  const remove = h("button", { type: "button", class: "quiet remove", "aria-label": `Remove ${name}`, onclick: () => close() }, "Remove");
  const open = () => {
    inner ??= build(schema, place);
    replace(holder, inner.element, remove);
    return inner;
  };
  const close = () => {
    inner = null;
    replace(holder, add);
  };
  close();
  return {
    element: holder,
    get: () => inner?.get(),
    set(value) {
      if (value === undefined) {
        close();
        return true;
      }
      return open().set(value);
    },
    at: (path) => inner?.at(path) ?? null,
    mark: (text) => {
      if (text !== null || inner !== null) open().mark(text);
    },
  };
}

/**
 * Move the focus to the first control of an element.
 * @param {HTMLElement} element
 */
export function focusFirst(element) {
  const first = element.querySelector("input, select, textarea, button");
  if (first instanceof HTMLElement) first.focus();
}

/**
 * @param {import("./fields.js").Options} options
 * @param {Place} place
 * @returns {Field}
 */
function objectField(options, place) {
  const { schema } = options.shape;
  const required = new Set(Array.isArray(schema["required"]) ? schema["required"] : []);
  const properties = isObject(schema["properties"]) ? Object.entries(schema["properties"]) : [];
  const ordered = [...properties.filter(([name]) => required.has(name)), ...properties.filter(([name]) => !required.has(name))];
  /** @type {Map<string, Field>} */
  const fields = new Map();
  for (const [name, each] of ordered) {
    const inner = { ...place, name, isRequired: required.has(name), depth: place.depth + 1, isBare: false };
    const isLazy = !inner.isRequired && COMPOSITE.has(classify(each, place.root).kind);
    fields.set(name, isLazy ? optionalField(each, inner) : build(each, inner));
  }
  const more = schema["additionalProperties"];
  const extra = isObject(more) && Object.keys(more).length > 0 ? mapField({ ...options, name: "more" }, { ...place, name: "More properties", depth: place.depth + 1, isBare: false }) : null;
  const content = h("div", { class: "fields" }, [...fields.values()].map((field) => field.element), extra?.element);
  if (fields.size === 0 && extra === null) content.append(h("p", { class: "hint" }, "No arguments."));
  const { element, mark } = group(options, place, content);
  /** @type {Field} */
  const field = {
    element,
    mark,
    get() {
      const value = Object.create(null);
      for (const [name, each] of fields) {
        const part = each.get();
        if (part !== undefined) value[name] = part;
      }
      return extra === null ? value : Object.assign(value, extra.get());
    },
    set(value) {
      const given = value === undefined ? {} : value;
      if (!isObject(given)) return false;
      const unknown = Object.keys(given).filter((name) => !fields.has(name));
      if (unknown.length > 0 && extra === null) return false;
      let isShown = true;
      for (const [name, each] of fields) isShown = each.set(Object.hasOwn(given, name) ? given[name] : undefined) && isShown;
      if (extra !== null) isShown = extra.set(Object.fromEntries(unknown.map((name) => [name, given[name]]))) && isShown;
      return isShown;
    },
    at: ([first, ...rest]) => (first === undefined ? field : (fields.get(String(first))?.at(rest) ?? extra?.at([first, ...rest]) ?? null)),
  };
  return field;
}

/**
 * @param {import("./fields.js").Options} options
 * @param {Place} place
 * @returns {Field}
 */
function unionField(options, place) {
  const { branches, isNullable } = options.shape;
  /** @type {Field | null} */
  let inner = null;
  const host = h("div", { class: "branch" });
  const select = h(
    "select",
    { id: makeId(), "aria-label": `Kind of ${clip(options.name, 60) || "arguments"}` },
    isNullable && h("option", { value: "null" }, "null"),
    branches.map((each, index) => h("option", { value: index }, nameBranch(each, place.root))),
  );
  const choose = () => {
    const branch = branches[Number(select.value)];
    const bare = { ...place, name: "value", isRequired: true, depth: place.depth + 1, isBare: true };
    inner = branch === undefined ? null : build(branch, bare);
    replace(host, inner?.element);
  };
  select.addEventListener("change", choose);
  select.value = "0";
  choose();
  const { element, mark } = group(options, place, h("div", { class: "union" }, select, host));
  /** @type {Field} */
  const field = {
    element,
    mark,
    get: () => (select.value === "null" ? null : inner?.get()),
    set(value) {
      if (value === undefined) return true;
      if (value === null && isNullable) {
        select.value = "null";
        choose();
        return true;
      }
      for (const [index, branch] of branches.entries()) {
        if (!fits(value, branch, place.root)) continue;
        select.value = String(index);
        choose();
        if (inner?.set(value)) return true;
      }
      return false;
    },
    at: (path) => (path.length === 0 ? field : (inner?.at(path) ?? null)),
  };
  return field;
}

/**
 * Read a path of an error, such as `filters.dates[2].start`.
 * @param {string} text
 * @returns {Step[]}
 */
export function parsePath(text) {
  /** @type {Step[]} */
  const path = [];
  for (const [, name, index, quoted] of text.matchAll(/\.?([^.[\]]+)|\[(\d+)\]|\[['"]([^\]]*)['"]\]/g)) {
    path.push(index !== undefined ? Number(index) : (quoted ?? name ?? ""));
  }
  return path;
}
