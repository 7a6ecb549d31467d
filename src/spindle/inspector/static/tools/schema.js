// @ts-check
// JSON Schemas of tools: references, kinds of values and words for them. A schema may be hostile, so all is bounded.

/** @typedef {Record<string, any>} Schema */
/** @typedef {"text" | "number" | "integer" | "boolean" | "null" | "const" | "enum" | "object" | "map" | "array" | "tuple" | "union" | "any"} Kind */

/**
 * What kind of value a schema describes.
 * @typedef {object} Shape
 * @property {Kind} kind
 * @property {Schema} schema            with references resolved and `allOf` merged
 * @property {boolean} isNullable
 * @property {unknown[]} choices        of an enum
 * @property {Schema[]} branches        of a union
 */

export const MAX_DEPTH = 8;
export const MAX_PROPERTIES = 150;
export const MAX_CHOICES = 300;
const MAX_BRANCHES = 20;
const MAX_STEPS = 20;
const MAX_PARTS = 60;
const MAX_TEXT = 600;

/** @param {unknown} value @returns {value is Schema} */
export function isObject(value) {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/**
 * Return a text of a schema, shortened; anything else becomes empty.
 * @param {unknown} text
 * @param {number} [most]
 */
export function clip(text, most = MAX_TEXT) {
  if (typeof text !== "string") return "";
  return text.length > most ? `${text.slice(0, most)}…` : text;
}

/**
 * Follow references inside the same document; keywords beside a reference win.
 * @param {unknown} schema
 * @param {Schema} root
 * @returns {Schema}
 */
export function resolve(schema, root) {
  let found = isObject(schema) ? schema : schema === false ? { not: {} } : {};
  for (let step = 0; step < MAX_STEPS && typeof found["$ref"] === "string"; step += 1) {
    const target = follow(found["$ref"], root);
    if (!isObject(target)) return {};
    const { $ref: _, ...beside } = found;
    found = { ...target, ...beside };
  }
  return typeof found["$ref"] === "string" ? {} : found;
}

/**
 * @param {string} ref
 * @param {Schema} root
 * @returns {unknown}
 */
function follow(ref, root) {
  if (ref === "#") return root;
  if (!ref.startsWith("#/") || ref.length > 500) return undefined;
  /** @type {unknown} */
  let place = root;
  for (const part of ref.slice(2).split("/")) {
    const name = decode(part).replaceAll("~1", "/").replaceAll("~0", "~");
    if (typeof place !== "object" || place === null || !Object.hasOwn(place, name)) return undefined;
    place = /** @type {Record<string, unknown>} */ (place)[name];
  }
  return place;
}

/** @param {string} text */
function decode(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/**
 * Find out what kind of value a schema describes.
 * @param {unknown} given
 * @param {Schema} root
 * @param {number} [depth]
 * @returns {Shape}
 */
export function classify(given, root, depth = 0) {
  const schema = mergeAll(resolve(given, root), root);
  /** @type {Shape} */
  const shape = { kind: "any", schema, isNullable: false, choices: [], branches: [] };
  if (depth > MAX_STEPS || schema["not"] !== undefined || schema["if"] !== undefined) return shape;
  if (Object.hasOwn(schema, "const")) return { ...shape, kind: schema["const"] === null ? "null" : "const" };
  if (Array.isArray(schema["enum"])) return chooseEnum(shape, schema["enum"]);
  const branches = schema["anyOf"] ?? schema["oneOf"];
  if (Array.isArray(branches)) return chooseBranch(shape, branches, root, depth);
  const types = Array.isArray(schema["type"]) ? schema["type"] : [schema["type"] ?? guessType(schema)];
  const rest = types.filter((type) => type !== "null");
  shape.isNullable = rest.length < types.length;
  if (rest.length === 0) return { ...shape, kind: "null" };
  if (rest.length > 1) return { ...shape, kind: "union", branches: rest.slice(0, MAX_BRANCHES).map((type) => ({ ...schema, type })) };
  return { ...shape, kind: findKind(rest[0], schema) };
}

/**
 * @param {Shape} shape
 * @param {unknown[]} values
 * @returns {Shape}
 */
function chooseEnum(shape, values) {
  const choices = values.filter((value) => value !== null);
  if (choices.length > MAX_CHOICES) return shape;
  return { ...shape, kind: "enum", choices, isNullable: choices.length < values.length };
}

/**
 * @param {Shape} shape
 * @param {unknown[]} all
 * @param {Schema} root
 * @param {number} depth
 * @returns {Shape}
 */
function chooseBranch(shape, all, root, depth) {
  const { anyOf: _, oneOf: __, ...outer } = shape.schema;
  const kept = all.slice(0, MAX_BRANCHES).map((each) => resolve(each, root));
  const rest = kept.filter((each) => each["type"] !== "null" && each["const"] !== null);
  const isNullable = rest.length < kept.length;
  if (all.length > MAX_BRANCHES || rest.length === 0) return shape;
  if (rest.length === 1) {
    const only = classify({ ...rest[0], ...outer }, root, depth + 1);
    return { ...only, isNullable: isNullable || only.isNullable };
  }
  if (rest.every((each) => Object.hasOwn(each, "const"))) {
    return { ...shape, kind: "enum", choices: rest.map((each) => each["const"]), isNullable };
  }
  const hasOuter = ["properties", "type", "required"].some((name) => Object.hasOwn(outer, name));
  const branches = rest.map((each) => (hasOuter ? mergeAll({ allOf: [outer, each] }, root) : each));
  return { ...shape, kind: "union", branches, isNullable };
}

/**
 * Merge `allOf` of objects into one schema; parts that refer to each other are merged as far as the room goes.
 * @param {Schema} schema
 * @param {Schema} root
 * @param {{left: number}} [room]
 * @returns {Schema}
 */
function mergeAll(schema, root, room = { left: MAX_PARTS }) {
  const parts = schema["allOf"];
  if (!Array.isArray(parts) || parts.length > MAX_BRANCHES || room.left < parts.length) return schema;
  room.left -= parts.length;
  const { allOf: _, ...own } = schema;
  /** @type {Schema} */
  let merged = {};
  for (const part of [...parts.map((each) => mergeAll(resolve(each, root), root, room)), own]) {
    const properties = { ...merged["properties"], ...part["properties"] };
    const required = [...(merged["required"] ?? []), ...(Array.isArray(part["required"]) ? part["required"] : [])];
    merged = { ...merged, ...part };
    if (Object.keys(properties).length > 0) merged["properties"] = properties;
    if (required.length > 0) merged["required"] = required;
  }
  return merged;
}

/** @param {Schema} schema */
function guessType(schema) {
  if (schema["properties"] !== undefined || schema["additionalProperties"] !== undefined) return "object";
  if (schema["items"] !== undefined || schema["prefixItems"] !== undefined) return "array";
  if (schema["minLength"] !== undefined || schema["pattern"] !== undefined || schema["format"] !== undefined) return "string";
  if (schema["minimum"] !== undefined || schema["maximum"] !== undefined) return "number";
  return "any";
}

/**
 * @param {unknown} type
 * @param {Schema} schema
 * @returns {Kind}
 */
function findKind(type, schema) {
  if (type === "string") return "text";
  if (type === "integer" || type === "number" || type === "boolean") return type;
  if (type === "array") return Array.isArray(schema["prefixItems"]) ? "tuple" : "array";
  if (type !== "object") return "any";
  const count = isObject(schema["properties"]) ? Object.keys(schema["properties"]).length : 0;
  if (count > MAX_PROPERTIES || isObject(schema["patternProperties"])) return "any";
  return count > 0 || schema["additionalProperties"] === false ? "object" : "map";
}

/**
 * Say in a few words which values a schema accepts.
 * @param {Shape} shape
 * @param {Schema} root
 */
export function describe(shape, root) {
  const { schema } = shape;
  /** @type {string[]} */
  const words = [];
  if (shape.kind === "union") words.push(shape.branches.slice(0, 4).map((each) => nameBranch(each, root)).join(" or "));
  else if (shape.kind === "array") words.push(`list of ${classify(schema["items"] ?? {}, root).kind}`);
  else words.push({ any: "any JSON", enum: "choice", tuple: "list", map: "map", const: "fixed", null: "null" }[/** @type {string} */ (shape.kind)] ?? shape.kind);
  if (typeof schema["format"] === "string") words.push(clip(schema["format"], 30));
  if (schema["minimum"] !== undefined) words.push(`≥ ${clip(String(schema["minimum"]), 20)}`);
  if (schema["exclusiveMinimum"] !== undefined) words.push(`> ${clip(String(schema["exclusiveMinimum"]), 20)}`);
  if (schema["maximum"] !== undefined) words.push(`≤ ${clip(String(schema["maximum"]), 20)}`);
  if (schema["exclusiveMaximum"] !== undefined) words.push(`< ${clip(String(schema["exclusiveMaximum"]), 20)}`);
  if (typeof schema["minItems"] === "number") words.push(`at least ${schema["minItems"]}`);
  if (typeof schema["maxItems"] === "number") words.push(`at most ${schema["maxItems"]}`);
  if (shape.isNullable) words.push("or null");
  return words.join(", ");
}

/**
 * Name a branch of a union.
 * @param {Schema} branch
 * @param {Schema} root
 */
export function nameBranch(branch, root) {
  const shape = classify(branch, root);
  if (typeof shape.schema["title"] === "string") return clip(shape.schema["title"], 60);
  if (shape.kind === "const") return clip(JSON.stringify(shape.schema["const"]), 60);
  const properties = isObject(shape.schema["properties"]) ? shape.schema["properties"] : {};
  for (const each of Object.values(properties)) {
    const inner = resolve(each, root);
    if (Object.hasOwn(inner, "const")) return clip(JSON.stringify(inner["const"]), 60);
  }
  return shape.kind === "object" ? `object with ${clip(Object.keys(properties).slice(0, 3).join(", "), 60)}` : shape.kind;
}

/**
 * Return whether a value looks like one of a schema: its type, its constants and its required names.
 * @param {unknown} value
 * @param {Schema} branch
 * @param {Schema} root
 * @param {{left: number}} [room]   how many branches may still be looked at
 * @returns {boolean}
 */
export function fits(value, branch, root, room = { left: MAX_STEPS * MAX_BRANCHES }) {
  room.left -= 1;
  if (room.left < 0) return false;
  const { kind, schema, choices, isNullable, branches } = classify(branch, root);
  if (value === null) return isNullable || kind === "null" || kind === "any";
  switch (kind) {
    case "const":
      return JSON.stringify(value) === JSON.stringify(schema["const"]);
    case "enum":
      return choices.some((each) => JSON.stringify(each) === JSON.stringify(value));
    case "text":
      return typeof value === "string";
    case "integer":
      return Number.isInteger(value);
    case "number":
      return typeof value === "number";
    case "boolean":
      return typeof value === "boolean";
    case "array":
    case "tuple":
      return Array.isArray(value);
    case "map":
      return isObject(value);
    case "union":
      return branches.some((each) => fits(value, each, root, room));
    case "object": {
      if (!isObject(value)) return false;
      const required = Array.isArray(schema["required"]) ? schema["required"] : [];
      const properties = isObject(schema["properties"]) ? schema["properties"] : {};
      const isClosed = schema["additionalProperties"] === false;
      return (
        required.every((name) => Object.hasOwn(value, String(name))) &&
        Object.keys(value).every((name) => Object.hasOwn(properties, name) || !isClosed) &&
        Object.entries(properties).every(([name, each]) => {
          const inner = resolve(each, root);
          return !Object.hasOwn(inner, "const") || !Object.hasOwn(value, name) || value[name] === inner["const"];
        })
      );
    }
    default:
      return kind === "any";
  }
}
