// @ts-check
// The address of the page: `/page/VIEW/ID?filters`; each view draws itself from it.

/**
 * @typedef {object} Place
 * @property {string} view
 * @property {string | null} id      what follows the view, decoded
 * @property {URLSearchParams} query
 */

/** @type {(place: Place) => void} */
let draw = () => {};

/** @returns {Place} */
export function getPlace() {
  const [view, ...rest] = location.pathname.replace(/^\/page\/?/, "").split("/");
  const id = rest.join("/");
  return { view: view || "tools", id: id === "" ? null : decode(id), query: new URLSearchParams(location.search) };
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
 * Build the path of a view: `buildPath("calls", key, {tool})`.
 * @param {string} view
 * @param {string | null} [id]
 * @param {Record<string, string | number | null | undefined>} [query]
 */
export function buildPath(view, id, query = {}) {
  const rest = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    if (value !== null && value !== undefined && value !== "") rest.set(name, String(value));
  }
  return `/page/${view}${id === null || id === undefined ? "" : `/${encodeURIComponent(id)}`}${rest.size ? `?${rest}` : ""}`;
}

/**
 * Go to a path, as a click on a link would.
 * @param {string} path
 */
export function go(path) {
  if (path !== location.pathname + location.search) history.pushState(null, "", path);
  draw(getPlace());
}

/**
 * Change the filters in the address without leaving the view, or adding to the history.
 * @param {Record<string, string | number | null | undefined>} query
 */
export function setQuery(query) {
  const place = getPlace();
  history.replaceState(null, "", buildPath(place.view, place.id, query));
}

/**
 * Draw each place the user goes to.
 * @param {(place: Place) => void} onPlace
 */
export function startRouter(onPlace) {
  draw = onPlace;
  addEventListener("popstate", () => draw(getPlace()));
  document.addEventListener("click", (event) => {
    const link = event.target instanceof Element ? event.target.closest("a") : null;
    const path = link?.getAttribute("href");
    const isPlain = !event.ctrlKey && !event.metaKey && !event.shiftKey && event.button === 0;
    if (!path?.startsWith("/page/") || path.startsWith("/page/static/") || !isPlain || link?.hasAttribute("download")) return;
    event.preventDefault();
    go(path);
  });
  draw(getPlace());
}
