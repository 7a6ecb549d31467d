// @ts-check
// Logs in with the code in the fragment of a one-time link, or with a token.

import { byId } from "./dom.js";

/**
 * @param {unknown} body
 * @param {Record<string, string>} headers
 */
async function logIn(body, headers = {}) {
  const response = await fetch("/api/v1/login", {
    method: "POST",
    credentials: "same-origin",
    headers: { "Content-Type": "application/json", ...headers },
    body: JSON.stringify(body),
  });
  if (response.ok) {
    localStorage.setItem("spindle-token", (await response.json()).token);
    location.replace("/page/tools");
    return;
  }
  const answer = await response.json().catch(() => null);
  const text = String(answer?.error?.message ?? answer?.hint ?? `The server answered ${response.status}.`);
  byId("status").textContent = text.charAt(0).toUpperCase() + text.slice(1);
  byId("status").classList.add("failed");
}

const code = location.hash.slice(1);
if (location.search === "?ended") {
  byId("status").textContent = "Your login has ended, or this browser has lost its token. Run `spindle page` and open the link that it prints.";
}
if (code !== "") {
  history.replaceState(null, "", location.pathname);
  byId("status").textContent = "Logging in …";
  void logIn({ code });
}

document.getElementById("token-form")?.addEventListener("submit", (event) => {
  event.preventDefault();
  const field = /** @type {HTMLInputElement} */ (byId("token"));
  void logIn({}, { Authorization: `Bearer ${field.value}` });
});
