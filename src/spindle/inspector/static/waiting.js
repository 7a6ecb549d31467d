// @ts-check
// Calls that wait for approval: the badge, the title of the page, and notifications of the browser.

import { byId } from "./dom.js";
import { listen, stayConnected } from "./live.js";
import { go } from "./router.js";

/** @typedef {{count: number, newest: {id: string, tool: string} | null}} Waiting */

const SETTING = "spindle.notify";
let title = "";
let count = 0;
/** @type {string | null} */
let lastId = null;
let hasHeard = false;

/**
 * Set the title of the page; the number of waiting calls is put before it.
 * @param {string} text
 */
export function setTitle(text) {
  title = text;
  document.title = count > 0 ? `(${format(count)}) ${title}` : title;
}

/** Show how many calls wait, from now on. */
export function watchWaiting() {
  stayConnected(isNotifying());
  listen("waiting", (/** @type {Waiting} */ value) => {
    count = value.count;
    const badge = byId("waiting");
    badge.hidden = count === 0;
    badge.textContent = format(count);
    badge.setAttribute("aria-label", `${format(count)} waiting`);
    setTitle(title);
    const newest = value.newest;
    // What waited before the page was opened is no news.
    if (newest !== null && newest.id !== lastId && hasHeard) notify(newest);
    lastId = newest?.id ?? lastId;
    hasHeard = true;
  });
}

/** @param {number} waiting */
function format(waiting) {
  return waiting >= 1000 ? "999+" : String(waiting);
}

/** Whether this browser can show notifications. */
export function canNotify() {
  return "Notification" in window && Notification.permission !== "denied";
}

/** Whether notifications are on. */
export function isNotifying() {
  return "Notification" in window && Notification.permission === "granted" && localStorage.getItem(SETTING) === "on";
}

/**
 * Turn notifications on, which asks for permission, or off; resolves to whether they are on.
 * @param {boolean} isWanted
 */
export async function setNotifying(isWanted) {
  if (isWanted && "Notification" in window) await Notification.requestPermission();
  localStorage.setItem(SETTING, isWanted ? "on" : "off");
  stayConnected(isNotifying());
  return isNotifying();
}

/** @param {{id: string, tool: string}} newest */
function notify(newest) {
  if (!isNotifying() || !document.hidden) return;
  const note = new Notification("A call waits for approval", { body: newest.tool.slice(0, 100), tag: "spindle-approval" });
  note.onclick = () => {
    window.focus();
    go(`/page/approvals/${encodeURIComponent(newest.id)}`);
    note.close();
  };
}
