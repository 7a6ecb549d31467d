// @ts-check
// The frame of the page: navigation, badges, the connection, and the current view.

import { forgetToken, isOperator, post, session } from "./api.js";
import { byId, h, isTyping, replace } from "./dom.js";
import { showKeys } from "./keys.js";
import { watchConnection } from "./live.js";
import { emptyState, showError } from "./parts.js";
import { go, startRouter } from "./router.js";
import { setTitle, watchWaiting } from "./waiting.js";

/**
 * A view draws itself into `root` for a place; `update` may return false to be drawn anew.
 * @typedef {object} View
 * @property {(root: HTMLElement, place: import("./router.js").Place) => (void | (() => void) | Mounted)} mount
 */
/**
 * @typedef {object} Mounted
 * @property {() => void} [unmount]
 * @property {(place: import("./router.js").Place) => boolean} [update]   return false to be mounted again
 */

/** @type {[name: string, title: string][]} */
const VIEWS = [
  ["tools", "Tools"],
  ["calls", "Calls"],
  ["turns", "Turns"],
  ["artifacts", "Artifacts"],
  ["approvals", "Approvals"],
  ["flow", "Flow"],
  ["health", "Health"],
];

/** @type {Mounted} */
let mounted = {};
let current = "";
let drawing = 0;
let isLost = false;

/** @param {import("./router.js").Place} place */
async function show(place) {
  const name = VIEWS.some(([known]) => known === place.view) ? place.view : "tools";
  setTitle(`${VIEWS.find(([known]) => known === name)?.[1]} · ${session.name}`);
  for (const link of document.querySelectorAll("nav a")) {
    if (link.getAttribute("data-view") === name) {
      link.setAttribute("aria-current", "page");
      link.scrollIntoView({ block: "nearest", inline: "nearest" }); // on a phone, the row of views scrolls
    } else link.removeAttribute("aria-current");
  }
  drawing += 1; // also if this view is still drawn: one that is loading must not replace it
  const own = drawing;
  if (name === current && mounted.update?.(place)) return;
  try {
    const view = /** @type {View} */ ((await import(`./views/${name}.js`)).default);
    if (own !== drawing) return;
    mounted.unmount?.();
    enableStyles(name);
    const root = byId("main");
    root.className = `view-${name}`;
    replace(root);
    root.scrollTop = 0;
    current = name;
    const result = view.mount(root, place);
    mounted = typeof result === "function" ? { unmount: result } : (result ?? {});
  } catch (error) {
    if (own !== drawing) return;
    mounted.unmount?.();
    mounted = {};
    current = "";
    const root = byId("main");
    root.className = "";
    replace(root, isLost || isImportError(error) ? drawUnreachable() : showError(error));
  }
}

/**
 * Whether a script could not be loaded; browsers tell it in different words.
 * @param {unknown} error
 */
function isImportError(error) {
  return error instanceof TypeError && /import|module/i.test(error.message);
}

/** What is shown for a view that could not be loaded; it is loaded as soon as the server is back. */
function drawUnreachable() {
  return emptyState("The server does not answer", h("p", {}, "It may have been stopped. This view opens as soon as the server is back."), h("p", {}, h("button", { onclick: () => location.reload() }, "Try again")));
}

/**
 * Turn off the style sheets of other views, so that each view may choose its class names alone.
 * @param {string} name
 */
function enableStyles(name) {
  for (const link of document.querySelectorAll("link[data-views]")) {
    const views = (link.getAttribute("data-views") ?? "").split(" ");
    /** @type {HTMLLinkElement} */ (link).media = views.includes(name) ? "all" : "not all";
  }
}

function drawBar() {
  const links = VIEWS.map(([name, title], index) =>
    h(
      "a",
      { href: `/page/${name}`, dataset: { view: name }, title: `${title} (g ${index + 1})` },
      h("span", { class: "label", dataset: { title } }, title),
      name === "approvals" && h("span", { class: "count", id: "waiting", hidden: true }),
    ),
  );
  const connection = h("span", { class: "connection", id: "connection", role: "status" });
  watchConnection((isConnected) => {
    // A failed import may be remembered by the browser, and a new server may have new scripts.
    if (isConnected && isLost && current === "") location.reload();
    isLost = !isConnected;
    connection.textContent = isConnected ? "" : "Not connected";
    connection.title = isConnected ? "" : "The server does not answer. The page tries to reach it every few seconds.";
    connection.classList.toggle("lost", !isConnected);
  });
  const keys = h("button", { class: "quiet keys", onclick: () => void showKeys(current), title: "Keys of this view (?)", "aria-label": "Keys of this view" }, h("kbd", {}, "?"));
  const leave = h("button", { class: "quiet", onclick: logOut, title: "Log out" }, "Log out");
  const who = h("span", { class: "who", title: `${session.by}, ${session.role}` }, isOperator ? "" : "viewer");
  replace(
    byId("bar"),
    h("a", { class: "brand", href: "/page/tools" }, h("img", { src: "/page/static/icon.svg", alt: "", width: 18, height: 18 }), session.name),
    h("nav", { "aria-label": "Views" }, links),
    h("div", { class: "right" }, connection, who, keys, leave),
  );
}

async function logOut() {
  await post("/logout", {}, {}).catch(() => null);
  forgetToken();
  location.assign("/page/login");
}

/**
 * Move in the list of the view, if nothing else has the focus.
 * @param {KeyboardEvent} event
 */
function moveInList(event) {
  const list = document.querySelector("main .list");
  if (!(list instanceof HTMLElement) || (event.target !== document.body && event.target !== byId("main"))) return;
  list.focus();
  list.dispatchEvent(new KeyboardEvent("keydown", { key: event.key }));
}

let hasG = false;
document.addEventListener("keydown", (event) => {
  if (isTyping(event) || event.ctrlKey || event.metaKey || event.altKey) return;
  const view = hasG ? VIEWS[Number(event.key) - 1] : undefined;
  hasG = event.key === "g";
  if (view !== undefined) go(`/page/${view[0]}`);
  if (event.key === "?") void showKeys(current);
  if (event.key === "j" || event.key === "k") moveInList(event);
  if (event.key === "/") {
    const search = document.querySelector('main input[type="search"]');
    if (search instanceof HTMLInputElement) {
      event.preventDefault();
      search.focus();
      search.select();
    }
  }
});

drawBar();
watchWaiting();
startRouter((place) => void show(place));
