// @ts-check
// A schema as a tree of names, types and descriptions; parts that refer to themselves unfold when they are opened.

import { h } from "../dom.js";
import { MAX_PROPERTIES, classify, clip, describe, isObject, nameBranch } from "./schema.js";

/** @typedef {import("./schema.js").Schema} Schema */

/**
 * Draw a schema as a tree.
 * @param {Schema} schema
 */
export function schemaTree(schema) {
  const inner = drawInner(schema, schema);
  // The first level is open; deeper ones may have no end.
  for (const each of inner) if (each instanceof HTMLDetailsElement) each.open = true;
  return h("div", { class: "schema-tree" }, inner.length > 0 ? inner : h("p", { class: "hint" }, "No arguments."));
}

/**
 * @param {unknown} schema
 * @param {Schema} root
 * @returns {HTMLElement[]}
 */
function drawInner(schema, root) {
  const shape = classify(schema, root);
  const found = shape.schema;
  switch (shape.kind) {
    case "object":
    case "map": {
      const required = new Set(Array.isArray(found["required"]) ? found["required"] : []);
      const properties = isObject(found["properties"]) ? Object.entries(found["properties"]).slice(0, MAX_PROPERTIES) : [];
      const rows = properties.map(([name, each]) => drawNode(name, each, root, required.has(name)));
      if (isObject(found["additionalProperties"])) rows.push(drawNode("any other name", found["additionalProperties"], root, false));
      return rows;
    }
    case "array":
      return [drawNode("each item", found["items"] ?? {}, root, false)];
    case "tuple":
      return found["prefixItems"].slice(0, MAX_PROPERTIES).map((/** @type {unknown} */ each, /** @type {number} */ index) => drawNode(`item ${index + 1}`, each, root, true));
    case "union":
      return shape.branches.map((each) => drawNode(nameBranch(each, root), each, root, false));
    default:
      return [];
  }
}

/**
 * @param {string} name
 * @param {unknown} schema
 * @param {Schema} root
 * @param {boolean} isRequired
 */
function drawNode(name, schema, root, isRequired) {
  const shape = classify(schema, root);
  const facts = [describe(shape, root)];
  if (shape.kind === "enum") facts.push(clip(shape.choices.map((each) => JSON.stringify(each)).join(", "), 200));
  if (shape.schema["default"] !== undefined) facts.push(`default ${clip(JSON.stringify(shape.schema["default"]), 80)}`);
  if (typeof shape.schema["pattern"] === "string") facts.push(`matches ${clip(shape.schema["pattern"], 80)}`);
  const line = [
    h("code", { class: "schema-name" }, clip(name, 120)),
    isRequired && h("span", { class: "required", title: "Required" }, "*"),
    h("span", { class: "field-words" }, facts.join(" · ")),
  ];
  const about = clip(shape.schema["description"]);
  const note = about !== "" && h("p", { class: "hint" }, about);
  if (!["object", "map", "array", "tuple", "union"].includes(shape.kind)) return h("div", { class: "schema-node" }, h("div", {}, line), note);
  const body = h("div", { class: "schema-inner" });
  const details = h("details", { class: "schema-node" }, h("summary", {}, line), note, body);
  details.addEventListener("toggle", () => {
    if (details.open && body.childElementCount === 0) body.append(...drawInner(schema, root));
  });
  return details;
}
