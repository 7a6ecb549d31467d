// @ts-check
// Server-sent events, read from the body of a response: an `EventSource` could not send the token of the login.

/** A stream with a longer event is ended: what waits for the end of an event is held in memory. */
const MAX_CHARS = 8 << 20;

/**
 * Call `receive` with the name and the data of each event until the stream ends; the server gives its events no ids.
 * @param {ReadableStream<Uint8Array<ArrayBuffer>>} body
 * @param {(name: string, data: string) => void} receive
 */
export async function readEvents(body, receive) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  let name = "";
  /** @type {string[]} */
  let data = [];
  let chars = 0;
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      const lines = (rest + value).split("\n");
      rest = lines.pop() ?? "";
      for (const line of lines) {
        if (line === "") {
          if (data.length > 0) receive(name || "message", data.join("\n"));
          name = "";
          data = [];
          chars = 0;
        } else if (line.startsWith("data:")) {
          data.push(getValue(line));
          chars += line.length;
        } else if (line.startsWith("event:")) {
          name = getValue(line);
        }
      }
      if (rest.length + chars > MAX_CHARS) throw new RangeError(`an event has more than ${MAX_CHARS} characters`);
    }
  } finally {
    await reader.cancel().catch(() => null);
  }
}

/** @param {string} line */
function getValue(line) {
  const value = line.slice(line.indexOf(":") + 1);
  return value.startsWith(" ") ? value.slice(1) : value;
}
