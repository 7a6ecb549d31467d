// @ts-check
// Numbers, times and sizes as short text.

// Made once: a live list formats hundreds of values in a second.
const TIME = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" });
const DATE = new Intl.DateTimeFormat();
const NUMBER = new Intl.NumberFormat("en-US");

/**
 * @param {string | number | Date} moment
 * @returns {string} the time of today, or the date and the time
 */
export function formatTime(moment) {
  const date = new Date(moment);
  const time = TIME.format(date);
  return date.toDateString() === new Date().toDateString() ? time : `${DATE.format(date)} ${time}`;
}

/** @param {string | number | Date} moment */
export function formatExactTime(moment) {
  return new Date(moment).toISOString().replace("T", " ").replace("Z", " UTC");
}

/** @param {number | null | undefined} ms */
export function formatDuration(ms) {
  if (ms === null || ms === undefined) return "–";
  if (ms < 1) return `${(ms * 1000).toFixed(0)} µs`;
  if (ms < 1000) return `${ms < 10 ? ms.toFixed(1) : ms.toFixed(0)} ms`;
  if (ms < 60_000) return `${(ms / 1000).toFixed(ms < 10_000 ? 2 : 1)} s`;
  const minutes = Math.floor(ms / 60_000);
  return minutes < 60
    ? `${minutes} min ${Math.round((ms % 60_000) / 1000)} s`
    : `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

/** @param {number | null | undefined} bytes */
export function formatBytes(bytes) {
  if (bytes === null || bytes === undefined) return "–";
  const units = ["B", "KB", "MB", "GB", "TB"];
  let value = bytes;
  let unit = 0;
  while (value >= 1000 && unit < units.length - 1) {
    value /= 1000;
    unit += 1;
  }
  return `${unit === 0 || value >= 100 ? value.toFixed(0) : value.toFixed(1)} ${units[unit]}`;
}

/** @param {number | null | undefined} count */
export function formatCount(count) {
  return count === null || count === undefined ? "–" : NUMBER.format(count);
}

/**
 * @param {number} count
 * @param {string} word
 * @param {string} [many]
 */
export function plural(count, word, many = `${word}s`) {
  return `${formatCount(count)} ${count === 1 ? word : many}`;
}

/**
 * A code as words: `input_invalid` is "input invalid".
 * @param {string} code
 */
export function formatCode(code) {
  return code.replaceAll("_", " ");
}

/**
 * Shorten a text in its middle.
 * @param {string} text
 * @param {number} chars
 */
export function shorten(text, chars) {
  if (text.length <= chars) return text;
  const half = Math.floor((chars - 1) / 2);
  return `${text.slice(0, half)}…${text.slice(text.length - half)}`;
}

/** @param {unknown} value */
export function toJson(value) {
  return JSON.stringify(value, null, 2) ?? "";
}
