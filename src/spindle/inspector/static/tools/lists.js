// @ts-check
// Fields for several values: lists, maps with names of any kind, and lists with a schema for each position.

import { h, replace } from "../dom.js";
import { build, focusFirst, group } from "./form.js";
import { isObject } from "./schema.js";

/** @typedef {import("./fields.js").Field} Field */
/** @typedef {import("./form.js").Place} Place */

const MAX_ITEMS = 200;

/**
 * @param {import("./fields.js").Options} options
 * @param {Place} place
 * @returns {Field}
 */
export function mapField(options, place) {
  const inner = options.shape.schema["additionalProperties"];
  /** @type {{key: HTMLInputElement, field: Field, row: HTMLElement}[]} */
  let rows = [];
  const list = h("div", { class: "items" });
  /** @param {string} name */
  const addRow = (name) => {
    const key = h("input", { type: "text", class: "key", value: name, placeholder: "name", "aria-label": "Name", autocomplete: "off" });
    const field = build(isObject(inner) ? inner : {}, { ...place, name: "value", isRequired: true, depth: place.depth + 1, isBare: false });
    const remove = h("button", { type: "button", class: "quiet", "aria-label": "Remove this entry" }, "✕");
    const row = h("div", { class: "item map-item" }, key, field.element, remove);
    const entry = { key, field, row };
    remove.addEventListener("click", () => {
      rows = rows.filter((each) => each !== entry);
      row.remove();
    });
    rows.push(entry);
    list.append(row);
    return entry;
  };
  const add = h("button", { type: "button", class: "quiet add", onclick: () => addRow("").key.focus() }, "+ Add entry");
  const { element, mark } = group(options, place, h("div", {}, list, add));
  /** @type {Field} */
  const field = {
    element,
    mark,
    get() {
      const value = Object.create(null);
      for (const each of rows) {
        const part = each.field.get();
        if (part !== undefined && each.key.value !== "") value[each.key.value] = part;
      }
      return value;
    },
    set(value) {
      const given = value === undefined ? {} : value;
      if (!isObject(given) || Object.keys(given).length > MAX_ITEMS) return false;
      rows = [];
      replace(list);
      return Object.entries(given).map(([name, each]) => addRow(name).field.set(each)).every(Boolean);
    },
    at: ([first, ...rest]) => (first === undefined ? field : (rows.find((each) => each.key.value === String(first))?.field.at(rest) ?? null)),
  };
  return field;
}

/**
 * @param {import("./fields.js").Options} options
 * @param {Place} place
 * @returns {Field}
 */
export function arrayField(options, place) {
  const inner = options.shape.schema["items"] ?? {};
  /** @type {{field: Field, row: HTMLElement, number: HTMLElement, up: HTMLButtonElement, down: HTMLButtonElement}[]} */
  let items = [];
  const list = h("div", { class: "items" });
  const draw = () => {
    replace(list, items.map((each) => each.row));
    items.forEach((each, index) => {
      each.number.textContent = String(index + 1);
      each.up.disabled = index === 0;
      each.down.disabled = index === items.length - 1;
    });
  };
  const addItem = () => {
    const field = build(inner, { ...place, name: "item", isRequired: true, depth: place.depth + 1, isBare: false });
    /** @param {number} step */
    const move = (step) => {
      const from = items.indexOf(item);
      const to = from + step;
      const other = items[to];
      if (other === undefined) return;
      items[from] = other;
      items[to] = item;
      draw();
      // The button that was used keeps the focus, unless it has just come to the end.
      const [used, back] = step < 0 ? [up, down] : [down, up];
      (used.disabled ? back : used).focus();
    };
    const remove = () => {
      const at = items.indexOf(item);
      items = items.filter((each) => each !== item);
      draw();
      const next = items[Math.min(at, items.length - 1)];
      if (next === undefined) add.focus();
      else focusFirst(next.row);
    };
    const number = h("span", { class: "item-number", "aria-hidden": "true" });
    const up = h("button", { type: "button", class: "quiet", "aria-label": "Move up", title: "Move up", onclick: () => move(-1) }, "↑");
    const down = h("button", { type: "button", class: "quiet", "aria-label": "Move down", title: "Move down", onclick: () => move(1) }, "↓");
    const tools = h(
      "div",
      { class: "item-tools" },
      up,
      down,
      h("button", { type: "button", class: "quiet", "aria-label": "Remove this item", title: "Remove", onclick: remove }, "✕"),
    );
    const item = { field, number, up, down, row: h("div", { class: "item" }, number, field.element, tools) };
    items.push(item);
    return item;
  };
  const add = h(
    "button",
    {
      type: "button",
      class: "quiet add",
      onclick: () => {
        if (items.length >= MAX_ITEMS) return;
        const item = addItem();
        draw();
        focusFirst(item.row);
      },
    },
    "+ Add item",
  );
  const { element, mark } = group(options, place, h("div", {}, list, add));
  /** @type {Field} */
  const field = {
    element,
    mark,
    get: () => items.map((each) => each.field.get()).filter((value) => value !== undefined),
    set(value) {
      const given = value === undefined ? [] : value;
      if (!Array.isArray(given) || given.length > MAX_ITEMS) return false;
      items = [];
      const isShown = given.map((each) => addItem().field.set(each)).every(Boolean);
      draw();
      return isShown;
    },
    at: ([first, ...rest]) => (first === undefined ? field : (items[Number(first)]?.field.at(rest) ?? null)),
  };
  return field;
}

/**
 * @param {import("./fields.js").Options} options
 * @param {Place} place
 * @returns {Field}
 */
export function tupleField(options, place) {
  const parts = options.shape.schema["prefixItems"].slice(0, MAX_ITEMS);
  /** @type {Field[]} */
  const fields = parts.map((/** @type {unknown} */ each, /** @type {number} */ index) =>
    build(each, { ...place, name: `${index + 1}`, isRequired: true, depth: place.depth + 1, isBare: false }),
  );
  const { element, mark } = group(options, place, h("div", { class: "fields" }, fields.map((each) => each.element)));
  /** @type {Field} */
  const field = {
    element,
    mark,
    get: () => fields.map((each) => each.get()).filter((value) => value !== undefined),
    set(value) {
      const given = value === undefined ? [] : value;
      if (!Array.isArray(given) || given.length > fields.length) return false;
      return fields.map((each, index) => each.set(given[index])).every(Boolean);
    },
    at: ([first, ...rest]) => (first === undefined ? field : (fields[Number(first)]?.at(rest) ?? null)),
  };
  return field;
}
