// @ts-check
// Live updates: one stream of server-sent events for each page, with the topics that its view asks for.

import { openStream } from "./api.js";
import { readEvents } from "./events.js";

/** @typedef {(value: any) => void} Listener */

const FIRST_WAIT_MS = 2000;
const MAX_WAIT_MS = 20_000;

/** @type {Map<string, Set<Listener>>} */
const listeners = new Map();
/** Ends the open stream. @type {AbortController | null} */
let stream = null;
let opened = "";
/** How often in a row the stream could not be opened, or was lost. */
let losses = 0;
/** @type {ReturnType<typeof setTimeout> | undefined} */
let timer;
let isScheduled = false;
let staysConnected = false;
/** @type {Set<(isConnected: boolean) => void>} */
const watchers = new Set();

/**
 * Call `listener` with each value of a topic; returns a function that ends it.
 * @param {string} topic
 * @param {Listener} listener
 * @returns {() => void}
 */
export function listen(topic, listener) {
  const known = listeners.get(topic) ?? new Set();
  listeners.set(topic, known.add(listener));
  schedule();
  return () => {
    known.delete(listener);
    if (known.size === 0) listeners.delete(topic);
    schedule();
  };
}

/**
 * Call `watcher` when the connection is made or lost.
 * @param {(isConnected: boolean) => void} watcher
 */
export function watchConnection(watcher) {
  watchers.add(watcher);
}

/**
 * Keep the stream while the page is hidden, for notifications; by default a hidden page gets no updates.
 * @param {boolean} isWanted
 */
export function stayConnected(isWanted) {
  staysConnected = isWanted;
}

function schedule() {
  if (isScheduled) return;
  isScheduled = true;
  // A view that is left and the next one change the topics together.
  setTimeout(() => {
    isScheduled = false;
    connect();
  }, 0);
}

function connect() {
  clearTimeout(timer);
  const topics = [...listeners.keys()].sort().join(",");
  if (topics === opened && stream !== null) return;
  close();
  opened = topics;
  if (topics === "" || (document.hidden && !staysConnected)) return;
  stream = new AbortController();
  void follow(topics, stream);
}

function close() {
  clearTimeout(timer);
  stream?.abort();
  stream = null;
}

/**
 * Read a stream until it is closed; if it is lost, another one is opened, later each time.
 * @param {string} topics
 * @param {AbortController} own
 */
async function follow(topics, own) {
  try {
    const { body } = await openStream(topics, own.signal);
    if (body !== null) await readEvents(body, (name, data) => own === stream && receive(name, data));
  } catch {
    // Refused, lost, or closed by us.
  }
  if (own !== stream) return;
  stream = null;
  notify(false);
  const wait = Math.min(MAX_WAIT_MS, FIRST_WAIT_MS * 2 ** losses);
  losses += 1;
  timer = setTimeout(connect, wait * (0.75 + Math.random() / 2)); // not all pages at once
}

/**
 * @param {string} topic
 * @param {string} data
 */
function receive(topic, data) {
  if (topic === "hello") {
    losses = 0;
    notify(true);
    return;
  }
  const known = listeners.get(topic);
  if (known === undefined) return;
  const value = JSON.parse(data);
  for (const listener of [...known]) {
    try {
      listener(value);
    } catch (error) {
      reportError(error); // of one view; the stream goes on
    }
  }
}

/** @param {boolean} isConnected */
function notify(isConnected) {
  for (const watcher of watchers) watcher(isConnected);
}

// A hidden page needs no updates, and its list is read again when it is shown.
document.addEventListener("visibilitychange", () => {
  if (document.hidden && staysConnected) return;
  if (document.hidden) close();
  else connect();
});
// A page that is left loses no connection.
window.addEventListener("pagehide", close);
window.addEventListener("pageshow", (event) => event.persisted && connect());
