// @ts-check
// The tab of JSON: a tree whose members are loaded when a value is opened, and values by a path.

import { get, isAborted } from "../api.js";
import { append, h, replace } from "../dom.js";
import { formatBytes, formatCount, plural } from "../format.js";
import { codeBlock, showError } from "../parts.js";
import { setQuery } from "../router.js";
import { openPiece } from "./piece.js";

/** @typedef {import("./types.js").JsonNode} JsonNode */
/** @typedef {import("./types.js").Members} Members */
/** @typedef {import("./types.js").Reading} Reading */

const ROOT = -1;

/**
 * Draw the tree of an artifact.
 * @param {HTMLElement} panel
 * @param {Reading} reading
 * @param {string} path      a JSONPath to begin with
 */
export function drawJson(panel, reading, path) {
  const input = h("input", { type: "search", class: "mono", value: path, placeholder: "JSONPath, such as $.items[?@.price > 10].name", "aria-label": "JSONPath", spellcheck: "false", maxlength: 4000 });
  const body = h("div", { class: "reader-body json-tree", role: "region", tabindex: 0, "aria-label": "JSON" });
  const show = () => {
    setQuery({ tab: "json", path: input.value });
    if (input.value.trim() === "") void showTree(body, reading);
    else void showPath(body, reading, input.value.trim());
  };
  const form = h(
    "form",
    {
      class: "toolbar",
      onsubmit: (/** @type {Event} */ event) => {
        event.preventDefault();
        show();
      },
    },
    input,
    h("button", { type: "submit", class: "primary" }, "Find"),
    h(
      "button",
      {
        type: "button",
        onclick: () => {
          input.value = "";
          show();
        },
      },
      "Tree",
    ),
  );
  append(panel, [form, body]);
  if (path === "") void showTree(body, reading);
  else void showPath(body, reading, path);
}

/**
 * @param {HTMLElement} body
 * @param {Reading} reading
 */
async function showTree(body, reading) {
  const root = h("ul", { class: "tree" });
  replace(body, root);
  body.setAttribute("aria-busy", "true");
  const first = await addMembers(root, reading, ROOT, "", "$");
  body.removeAttribute("aria-busy");
  // A document is one record: its members are what a reader wants to see.
  if (first?.members.nodes.length === 1) root.querySelector("button")?.click();
}

/**
 * @param {HTMLElement} body
 * @param {Reading} reading
 * @param {string} path
 */
async function showPath(body, reading, path) {
  replace(body, h("p", { class: "hint pad" }, "Reading the whole artifact…"));
  body.setAttribute("aria-busy", "true");
  try {
    /** @type {{values: string[], is_cut: boolean}} */
    const found = await get("/artifacts/json/path", { id: reading.id, path }, reading.signal);
    replace(
      body,
      h("p", { class: "hint pad" }, `${plural(found.values.length, "value")}${found.is_cut ? ", and more that are not shown" : ""}`),
      found.values.map((value, index) => codeBlock(value, { label: `Value ${index + 1}` })),
    );
  } catch (error) {
    if (!isAborted(error)) replace(body, showError(error));
  } finally {
    body.removeAttribute("aria-busy");
  }
}

/**
 * Append the next members of a value to a list.
 * @param {HTMLUListElement} list
 * @param {Reading} reading
 * @param {number} byte
 * @param {string} cursor
 * @param {string} path
 * @returns {Promise<Members | null>}
 */
async function addMembers(list, reading, byte, cursor, path) {
  try {
    /** @type {Members} */
    const page = await get("/artifacts/json", { id: reading.id, byte, cursor }, reading.signal);
    const { nodes, kind, error, is_out_of_time: isLate } = page.members;
    const isDocument = kind === "records" && nodes.length === 1 && cursor === "";
    append(
      list,
      nodes.map((node) => drawNode(node, reading, isDocument ? path : buildPath(path, node), isDocument ? "document" : kind)),
    );
    if (nodes.length === 0 && cursor === "" && error === null && page.next_cursor === null) append(list, [h("li", { class: "hint" }, "empty")]);
    if (error !== null) append(list, [h("li", { class: "problem" }, `Not JSON from here on: ${error}`)]);
    if (page.next_cursor !== null) append(list, [drawMore(list, reading, byte, page.next_cursor, path, isLate)]);
    return page;
  } catch (error) {
    if (!isAborted(error)) append(list, [h("li", {}, showError(error))]);
    return null;
  }
}

/**
 * @param {HTMLUListElement} list
 * @param {Reading} reading
 * @param {number} byte
 * @param {string} cursor
 * @param {string} path
 * @param {boolean} isLate
 */
function drawMore(list, reading, byte, cursor, path, isLate) {
  const text = isLate ? "The value above is large: look for its end" : "Show more";
  const item = h("li", { class: "more-members" });
  const button = h(
    "button",
    {
      onclick: async () => {
        button.disabled = true;
        await addMembers(list, reading, byte, cursor, path);
        item.remove();
      },
    },
    text,
  );
  append(item, [button]);
  return item;
}

/**
 * @param {JsonNode} node
 * @param {Reading} reading
 * @param {string} path
 * @param {string} parent
 */
function drawNode(node, reading, path, parent) {
  const item = h("li", {});
  const name = parent === "object" ? h("span", { class: "json-name" }, node.name ?? "") : h("span", { class: "json-index" }, parent === "document" ? "$" : formatCount(node.index));
  const size = node.byte_length === null ? "large" : node.count === null ? formatBytes(node.byte_length) : plural(node.count, node.kind === "array" ? "item" : "member");
  if (node.kind !== "object" && node.kind !== "array") {
    append(item, [
      h("span", { class: "json-leaf", title: path }, name, h("span", { class: `json-value ${node.kind}`, dir: "ltr" }, node.preview, node.is_cut && "…")),
      node.is_cut && h("button", { class: "more", onclick: () => openPiece(reading, node.byte) }, `${size}: read all`),
    ]);
    return item;
  }
  const inside = h("ul", { hidden: true });
  let isLoaded = false;
  const toggle = h(
    "button",
    {
      class: "json-toggle",
      "aria-expanded": "false",
      title: path,
      onclick: () => {
        inside.hidden = !inside.hidden;
        toggle.setAttribute("aria-expanded", String(!inside.hidden));
        if (!isLoaded) void addMembers(inside, reading, node.byte, "", path);
        isLoaded = true;
      },
    },
    name,
    h("span", { class: "json-preview", dir: "ltr" }, node.preview),
    h("span", { class: "json-size" }, size),
  );
  append(item, [toggle, inside]);
  return item;
}

/**
 * @param {string} path
 * @param {JsonNode} node
 */
function buildPath(path, node) {
  if (node.name === null) return `${path}[${node.index}]`;
  return /^[A-Za-z_]\w*$/.test(node.name) ? `${path}.${node.name}` : `${path}[${JSON.stringify(node.name)}]`;
}
