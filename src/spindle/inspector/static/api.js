// @ts-check
// Requests to the API of the server.

/**
 * @typedef {object} Session
 * @property {"viewer" | "operator"} role
 * @property {string} by
 * @property {string | null} profile
 * @property {string} name
 */

const meta = document.querySelector('meta[name="session"]');

/** The login of this page. @type {Session} */
export const session = JSON.parse(meta?.getAttribute("content") ?? "{}");

export const isOperator = session.role === "operator";

const PREFIX = "/api/v1";
/** Where the login keeps the token that the API needs: unlike the cookie, no server on another port gets it. */
const TOKEN = "spindle-token";

/** A request that the server has refused, or that did not reach it. */
export class ApiError extends Error {
  /**
   * @param {string} message
   * @param {number} status
   * @param {string} code
   * @param {string | undefined} field
   */
  constructor(message, status, code, field) {
    super(message);
    this.status = status;
    this.code = code;
    this.field = field;
  }
}

/** @typedef {Record<string, string | number | boolean | null | undefined>} Query */

/**
 * Build the address of an endpoint: `build("/tools/{name}", {name, limit: 3})`.
 * @param {string} path
 * @param {Query} [query]
 */
export function build(path, query = {}) {
  const rest = new URLSearchParams();
  const used = new Set();
  const filled = path.replace(/\{(\w+)\}/g, (_, name) => {
    used.add(name);
    return encodeURIComponent(String(query[name]));
  });
  for (const [name, value] of Object.entries(query)) {
    if (!used.has(name) && value !== undefined && value !== null && value !== "") rest.set(name, String(value));
  }
  return `${PREFIX}${filled}${rest.size ? `?${rest}` : ""}`;
}

/**
 * Read something.
 * @template [Answer=any]
 * @param {string} path
 * @param {Query} [query]
 * @param {AbortSignal} [signal]
 * @returns {Promise<Answer>}
 */
export function get(path, query, signal) {
  return send(build(path, query), { method: "GET", signal: signal ?? null });
}

/**
 * Change or run something.
 * @template [Answer=any]
 * @param {string} path
 * @param {Query} query
 * @param {unknown} body
 * @param {AbortSignal} [signal]
 * @returns {Promise<Answer>}
 */
export function post(path, query, body, signal) {
  return send(build(path, query), {
    method: "POST",
    signal: signal ?? null,
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(body),
  });
}

/** Leave nothing of the login in this browser. */
export function forgetToken() {
  localStorage.removeItem(TOKEN);
}

/**
 * Open the stream of some topics; its body is read by the caller.
 * @param {string} topics
 * @param {AbortSignal} signal
 */
export function openStream(topics, signal) {
  return request(build("/events", { topics }), { method: "GET", signal });
}

/**
 * @param {string} url
 * @param {RequestInit} options
 */
async function send(url, options) {
  const response = await request(url, options);
  const answer = await response.json().catch(() => null);
  if (answer === null) throw new ApiError(`The server answered ${response.status}.`, response.status, "unknown", undefined);
  return answer;
}

/**
 * Send a request with the token of the login; a browser that has lost it, or whose login has ended, logs in again.
 * @param {string} url
 * @param {RequestInit} options
 * @returns {Promise<Response>}
 */
async function request(url, options) {
  const headers = { ...options.headers, "X-Spindle-Token": localStorage.getItem(TOKEN) ?? "" };
  let response;
  try {
    response = await fetch(url, { ...options, headers, credentials: "same-origin", redirect: "error" });
  } catch (error) {
    if (isAborted(error)) throw error;
    throw new ApiError("The server does not answer; it may have been stopped.", 0, "unreachable", undefined);
  }
  if (response.status === 401) location.assign("/page/login?ended");
  if (!response.ok) {
    const error = (await response.json().catch(() => null))?.error ?? {};
    throw new ApiError(error.message ?? `The server answered ${response.status}.`, response.status, error.code ?? "unknown", error.field);
  }
  return response;
}

/**
 * Return whether an error only says that a request was given up.
 * @param {unknown} error
 */
export function isAborted(error) {
  return error instanceof DOMException && error.name === "AbortError";
}
