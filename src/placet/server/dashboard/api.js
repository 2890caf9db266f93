// Asks the server. The token is kept in this tab's storage and in no address, cookie or link.

const KEY = "placet.token";
const PATIENCE_MS = 10_000;

/** The server answered, and it is no. */
export class Refusal extends Error {
  constructor(status, document) {
    super(typeof document.detail === "string" ? document.detail : `HTTP ${status}`);
    this.status = status;
    this.document = document;
  }
}

/** Nobody answered. */
export class Away extends Error {}

let token = takeFromAddress() ?? sessionStorage.getItem(KEY) ?? "";

export const hasToken = () => token !== "";

export function setToken(value) {
  token = value;
  if (value) sessionStorage.setItem(KEY, value);
  else sessionStorage.removeItem(KEY);
}

/** Take the token out of `#token=…`, and the fragment out of the address bar and the history. */
export function takeFromAddress() {
  const found = new URLSearchParams(location.hash.slice(1)).get("token");
  if (found === null) return null;
  history.replaceState(null, "", location.pathname + location.search);
  const value = found.trim();
  if (value) sessionStorage.setItem(KEY, value);
  return value || null;
}

/** Ask for a text; a path is relative to the page, so that a proxy may put it anywhere.
 * With a `body` it is sent as JSON by POST, a text as it is; `method` sends a POST without one. */
export async function askText(path, { body, method = body === undefined ? "GET" : "POST", patienceMs = PATIENCE_MS } = {}) {
  let answer;
  let text;
  try {
    answer = await send(path, {
      method,
      body: body === undefined || typeof body === "string" ? body : JSON.stringify(body),
      headers: body === undefined ? {} : { "content-type": "application/json" },
      signal: AbortSignal.timeout(patienceMs),
    });
    text = await answer.text();
  } catch (error) {
    throw new Away(error.name === "TimeoutError" ? "it does not answer" : "it cannot be reached");
  }
  if (!answer.ok) throw new Refusal(answer.status, parsed(text));
  return text;
}

/** Send a request with the token, and return the answer of `fetch`, whatever its status. */
export const send = (path, { headers = {}, body, ...options }) => fetch(path, {
  ...options,
  body: body || undefined,
  headers: { ...(isSendable(token) ? { authorization: `Bearer ${token}` } : {}), ...headers },
  cache: "no-store",
  credentials: "omit",
  redirect: "error",
});

/** Ask for JSON; `parse` reads its text. */
export async function ask(path, { parse = JSON.parse, ...options } = {}) {
  return parse(await askText(path, options));
}

// What a header cannot hold is no token; the server says so to a request without one.
const isSendable = (value) => /^[\x21-\x7e]+$/.test(value);

function parsed(text) {
  try {
    return JSON.parse(text) ?? {};
  } catch {
    return {}; // a proxy's own page
  }
}
