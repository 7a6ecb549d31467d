// @ts-check
// Numbers of JSON that JavaScript cannot keep: it changes the digits of large ones, and writes 2.0 as 2.

const STRINGS = /"(?:[^"\\]|\\.)*"/g;
const NUMBERS = /-?\d[\d.eE+-]*/g;

/**
 * Return the first number of a JSON text that would be sent otherwise than it is written, or `null`.
 * @param {string} text
 * @returns {string | null}
 */
export function findInexact(text) {
  const numbers = text.replace(STRINGS, '""').match(NUMBERS) ?? [];
  return numbers.find((each) => String(Number(each)) !== each) ?? null;
}
