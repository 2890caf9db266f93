// Sends a request of the page as its form says, shows what the server answers, and writes the same request for a shell.

import { hasToken, send } from "./api.js";
import { made } from "./chart.js";
import { safe, tame, whole } from "./format.js";

const HEADERS = ["content-type", "location", "allow", "retry-after", "idempotency-window", "www-authenticate", "x-request-id"];
const CHARS_READ = 2 ** 21;
const CHARS_SHOWN = 100_000;
const JSON_TYPE = "application/json";

/** Return the request of a form: {method, path, headers, body}; `values` has [parameter, its text]. */
export function requestOf(operation, values, body) {
  const parts = new Map();
  const query = new URLSearchParams();
  const headers = {};
  for (const [{ name, in: where }, text] of values) {
    if (text !== "" && where === "path") parts.set(name, encodeURIComponent(text));
    else if (text !== "" && where === "query") query.append(name, text);
    else if (text !== "") headers[name] = text;
  }
  if (body) headers["content-type"] = JSON_TYPE;
  const path = operation.path.slice(1).replace(/\{([^}]*)\}/g, (whole, name) => parts.get(name) ?? whole);
  return { method: operation.method, path: `${path}${query.size ? `?${query}` : ""}`, headers, body };
}

/** Write a request as a line for a shell; the token is that of the reader's environment. */
export function curlOf({ method, path, headers, body }, isSecured) {
  const words = ["curl -i"];
  if (method !== "GET") words[0] += ` -X ${method}`;
  words[0] += ` ${quoted(new URL(path, document.baseURI).href)}`;
  if (isSecured || hasToken()) words.push('-H "authorization: Bearer $PLACET_TOKEN"');
  for (const [name, value] of Object.entries(headers)) words.push(`-H ${quoted(`${name}: ${value}`)}`);
  if (body) words.push(`--data-raw ${quoted(body)}`);
  return words.join(" \\\n  ");
}

const quoted = (text) => `'${text.replaceAll("'", "'\\''")}'`;

/** Send a request, and show the answer in an element as it comes. */
export async function tryRequest({ path, ...request }, place, signal) {
  const began = performance.now();
  place.replaceChildren(made("p", "quiet", "sent …"));
  try {
    const answer = await send(path, { ...request, signal });
    const head = headOf(answer);
    const isStream = (answer.headers.get("content-type") ?? "").startsWith("text/event-stream");
    const view = (text, end) => place.replaceChildren(...head(performance.now() - began, end), ...bodyOf(text, answer));
    await read(answer, signal, view, isStream);
  } catch (error) {
    place.replaceChildren(made("p", "status-of bad", signal.aborted ? "stopped" : `No answer: ${tame(error.message, 300)}`));
  }
}

/** Read the text of an answer, at most `CHARS_READ` of it; what came of a stream is shown at once. */
async function read(answer, signal, view, isStream) {
  const reader = answer.body?.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  let end = "";
  try {
    while (reader) {
      const { value, done } = await reader.read();
      if (done) break;
      text += value;
      if (isStream) view(text, "open");
      if (text.length > CHARS_READ) {
        end = `only the first ${whole(CHARS_READ)} characters were read`;
        await reader.cancel();
        break;
      }
    }
  } catch (error) {
    end = signal.aborted ? "stopped" : `it broke off: ${error.message}`;
  }
  view(text, end);
}

function headOf(answer) {
  const status = made("span", `status-of ${answer.ok ? "good" : "bad"}`, `${answer.status} ${tame(answer.statusText, 60)}`.trim());
  const list = made("dl");
  for (const name of HEADERS) {
    const value = answer.headers.get(name);
    if (value !== null) list.append(made("dt", "", name), made("dd", "", tame(value, 400)));
  }
  return (ms, end) => {
    const line = made("p");
    line.append(status, " ", made("span", "quiet", `in ${whole(ms)} ms${end ? `; ${tame(end, 200)}` : ""}`));
    return [line, list];
  };
}

function bodyOf(text, answer) {
  if (text === "") return [made("p", "quiet", "no body")];
  const isJson = /^application\/([\w.+-]+\+)?json\b/.test(answer.headers.get("content-type") ?? "");
  const all = safe(isJson ? indented(text) : text);
  const shown = made("pre", "shown-text", all.slice(0, CHARS_SHOWN));
  shown.tabIndex = 0;
  if (all.length <= CHARS_SHOWN) return [shown];
  const more = made("button", "", `show the other ${whole(all.length - CHARS_SHOWN)} characters`);
  more.type = "button";
  more.addEventListener("click", () => { shown.textContent = all; more.remove(); });
  return [shown, more];
}

/** Indent a text of JSON; its numbers stay as they are written. A text that is none is returned as it is. */
export function indented(text) {
  try {
    JSON.parse(text);
  } catch {
    return text;
  }
  const lines = [];
  let line = "";
  let depth = 0;
  const next = () => { lines.push(line); line = "  ".repeat(depth); };
  let before = "";
  for (const [token] of text.matchAll(/"[^"\\]*(?:\\.[^"\\]*)*"|[{}[\],:]|[^\s{}[\],:"]+/g)) {
    const isEnd = token === "}" || token === "]";
    if (isEnd) depth -= 1;
    if (before === "," || ((before === "{" || before === "[") && !isEnd) || (isEnd && before !== "{" && before !== "[")) next();
    line += token === ":" ? ": " : token;
    if (token === "{" || token === "[") depth += 1;
    before = token;
  }
  return [...lines, line].join("\n");
}
