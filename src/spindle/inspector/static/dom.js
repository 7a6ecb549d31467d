// @ts-check
// Elements of the page. Text from outside only ever becomes a text node.

/** @typedef {Node | string | number | null | undefined | false} Child */
/** @typedef {Child | Child[]} Children */
/** @typedef {Record<string, unknown>} Props */

const SVG = "http://www.w3.org/2000/svg";

/**
 * Create an element: `h("button", {class: "primary", onclick: run}, "Run")`.
 *
 * Props are attributes; `on…` adds a listener, `dataset` and boolean values work as expected.
 * @template {keyof HTMLElementTagNameMap} Tag
 * @param {Tag} tag
 * @param {Props} [props]
 * @param {...Children} children
 * @returns {HTMLElementTagNameMap[Tag]}
 */
export function h(tag, props = {}, ...children) {
  const element = document.createElement(tag);
  assign(element, props);
  append(element, children);
  return element;
}

/**
 * Create an element of an SVG drawing.
 * @template {keyof SVGElementTagNameMap} Tag
 * @param {Tag} tag
 * @param {Props} [props]
 * @param {...Children} children
 * @returns {SVGElementTagNameMap[Tag]}
 */
export function svg(tag, props = {}, ...children) {
  const element = /** @type {SVGElementTagNameMap[Tag]} */ (document.createElementNS(SVG, tag));
  assign(element, props);
  append(element, children);
  return element;
}

/**
 * @param {Element} element
 * @param {Props} props
 */
function assign(element, props) {
  for (const [name, value] of Object.entries(props)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on") && typeof value === "function") {
      element.addEventListener(name.slice(2), /** @type {EventListener} */ (value));
    } else if (name === "dataset") {
      for (const [key, text] of Object.entries(/** @type {Record<string, unknown>} */ (value))) {
        element.setAttribute(`data-${key}`, String(text));
      }
    } else if (name === "href" || name === "src" || name === "action") {
      element.setAttribute(name, toOwnPath(String(value)));
    } else {
      element.setAttribute(name, value === true ? "" : String(value));
    }
  }
}

/**
 * Return a path of this server; anything else becomes `#`, whatever it is.
 * @param {string} path
 */
function toOwnPath(path) {
  // A browser leaves out tabs and line breaks: "/\t/host" would be the address of another server.
  return /^(?:#|\/(?!\/))[^\\\u0000-\u0020]*$/.test(path) ? path : "#";
}

/**
 * Append children; nested lists are flattened, `null` and `false` are left out.
 * @param {Node} parent
 * @param {Children[]} children
 */
export function append(parent, children) {
  for (const child of children.flat()) {
    if (child === null || child === undefined || child === false) continue;
    parent.appendChild(child instanceof Node ? child : document.createTextNode(String(child)));
  }
}

/**
 * Replace all children of an element.
 * @param {Element} parent
 * @param {...Children} children
 */
export function replace(parent, ...children) {
  parent.replaceChildren();
  append(parent, children);
}

/**
 * Return the element with an id.
 * @param {string} id
 * @returns {HTMLElement}
 */
export function byId(id) {
  const found = document.getElementById(id);
  if (found === null) throw new Error(`the page has no element ${id}`);
  return found;
}

/**
 * Return whether the user is typing into a field, so that a key is not a command.
 * @param {Event} event
 */
export function isTyping(event) {
  const target = event.target;
  return target instanceof HTMLElement && (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName));
}
