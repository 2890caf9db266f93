// A client of a placet server for pages and games: one file, no dependencies.
//
//   import { connect } from "http://127.0.0.1:8000/placet.js";
//   const client = connect("http://127.0.0.1:8000", token, "alice", { show: "view" });
//   client.on("view", (entities) => draw(entities));
//   const verdict = await client.submit([{ kind: "Move", payload: { to: [1, 2] } }]);
//   if (!verdict.admitted) console.log(verdict.refusals[0].message);
//
// Batches go over one WebSocket, in the order of the calls. When it ends, the client connects again
// and sends the unanswered batches again under the same req_ids, for which the server returns the
// verdict that it has made, or decides them now: no batch is decided twice.

const RETRY_MS_MIN = 250;
const RETRY_MS_MAX = 10_000;
/** Of the server until its first message names its own bounds. */
const IN_FLIGHT_MAX = 32;

/** The server has no verdict for a batch: the document of the problem says why (RFC 9457). */
export class ProblemError extends Error {
  constructor(problem) {
    super(problem.detail);
    this.name = "ProblemError";
    this.problem = problem;
  }
}

/** Whether a batch was decided is not known: `client.verdictOf(reqId)` asks for it. */
export class UnknownOutcomeError extends Error {
  constructor(message, reqIds) {
    super(message);
    this.name = "UnknownOutcomeError";
    this.reqIds = reqIds;
  }
}

/** Connect to a server as an agent, and stay connected until `close`.
 *
 * `url` is the server's, such as http://127.0.0.1:8000; `token` speaks for the agent. Options:
 * `world`, its name; `show`, what is sent besides verdicts: "view" (the agent's view, kept up to
 * date), "events", or null; `unansweredMax`, how many batches may wait for a verdict. */
export function connect(url, token, agent, options = {}) {
  return new Client(url, token, agent, options);
}

export class Client {
  #url;
  #token;
  #world;
  #show;
  #unansweredMax;
  #listeners = new Map();
  /** Batches without a verdict by number, in the order of the calls. */
  #unanswered = new Map();
  #session = crypto.getRandomValues(new Uint32Array(2)).reduce((text, part) => text + part.toString(36), "");
  #number = 0;
  #reqIds = 0;
  #socket = null;
  /** The first message of the open WebSocket; null while there is none. */
  #opening = null;
  /** The largest simulated time that the server has told. */
  #simTime = null;
  #nextRecord = null;
  #failures = 0;
  #timer = null;
  #isClosed = false;

  constructor(url, token, agent, { world = "world", show = null, unansweredMax = 256 } = {}) {
    if (![null, "view", "events"].includes(show)) {
      throw new TypeError(`show must be "view", "events" or null, got ${JSON.stringify(show)}`);
    }
    this.#url = new URL(url);
    this.#token = token;
    this.#world = world;
    this.#show = show;
    this.#unansweredMax = unansweredMax;
    this.agent = agent;
    /** The entities that the agent sees: name, such as "world.agents/alice" -> fields. */
    this.view = new Map();
    this.#connect();
  }

  /** Whether the server answers now. */
  get isOpen() {
    return this.#opening !== null;
  }

  /** How many batches have no verdict yet. */
  get unanswered() {
    return this.#unanswered.size;
  }

  /** Submit a batch: an intent, an array of intents, or a batch object.
   *
   * Fields that an intent leaves out are filled in: its agent, and a req_id that is kept when the
   * batch is sent again. Returns a promise of the verdict. A refusal is a verdict; the promise is
   * rejected by a ProblemError if the server has no verdict, and by an UnknownOutcomeError. */
  submit(batch) {
    if (this.#isClosed) return Promise.reject(new Error("the client is closed; connect again"));
    if (this.#unanswered.size >= this.#unansweredMax) {
      const told = `${this.#unansweredMax} batches have no verdict yet, which is all; await some before the next`;
      return Promise.reject(new Error(told));
    }
    const number = this.#number++;
    const completed = this.#completed(batch);
    const entry = { text: JSON.stringify({ number, batch: completed }), reqIds: reqIdsOf(completed), isSent: false, simTime: null };
    return new Promise((resolve, reject) => {
      this.#unanswered.set(number, { ...entry, resolve, reject });
      this.#sendWaiting();
    });
  }

  /** Ask for the verdict of an earlier req_id; null if the server has none. */
  async verdictOf(reqId) {
    const query = new URLSearchParams({ agent_id: this.agent, req_id: reqId });
    const answer = await this.#ask(`/verdicts?${query}`);
    if (answer.ok) return answer.json();
    if (answer.status === 404) return null;
    throw new ProblemError(await answer.json());
  }

  /** Call a function for each: "view" (entities, changed names), "event" (event), "open", "close" and "error".
   *
   * Returns a function that ends it. */
  on(type, listener) {
    if (!["view", "event", "open", "close", "error"].includes(type)) {
      throw new TypeError(`there is no ${JSON.stringify(type)}; there are view, event, open, close and error`);
    }
    const listeners = this.#listeners.get(type) ?? new Set();
    this.#listeners.set(type, listeners.add(listener));
    return () => listeners.delete(listener);
  }

  /** Close the WebSocket for good. Batches without a verdict are rejected as of unknown outcome. */
  close() {
    this.#end(null);
  }

  #completed(batch) {
    const complete = (intent) => ({ agent_id: this.agent, req_id: `${this.#session}:${this.#reqIds++}`, ...intent });
    if (Array.isArray(batch)) return batch.map(complete);
    return Array.isArray(batch.intents) ? { ...batch, intents: batch.intents.map(complete) } : complete(batch);
  }

  #tell(type, ...values) {
    for (const listener of this.#listeners.get(type) ?? []) {
      try {
        listener(...values);
      } catch (error) {
        reportError(error); // a fault of the page must not end the connection
      }
    }
  }

  #connect() {
    const query = new URLSearchParams();
    if (this.#show !== null) query.set("agent", this.agent);
    if (this.#show === "view") query.set("observe", "true");
    if (this.#show === "events") query.set("events", "true");
    if (this.#show === "events" && this.#nextRecord !== null) query.set("from_record", this.#nextRecord);
    const address = this.#address(`/batches?${query}`);
    address.protocol = address.protocol === "https:" ? "wss:" : "ws:";
    const socket = new WebSocket(address, ["placet", `bearer.${this.#token}`]);
    this.#socket = socket;
    socket.addEventListener("message", ({ data }) => this.#receive(JSON.parse(data)));
    socket.addEventListener("close", ({ code, reason }) => this.#onClose(code, reason));
  }

  #address(path) {
    const base = this.#url.pathname.replace(/\/$/, "");
    return new URL(`${base}/api/v1/worlds/${encodeURIComponent(this.#world)}${path}`, this.#url);
  }

  #ask(path) {
    return fetch(this.#address(path), { headers: { authorization: `Bearer ${this.#token}` }, credentials: "omit", cache: "no-store" });
  }

  #receive(message) {
    this.#simTime = message.sim_time ?? message.verdict?.sim_time ?? this.#simTime;
    if (message.type === "open") this.#onOpen(message);
    else if (message.type === "verdict") this.#answer(message.number, "resolve", message.verdict);
    else if (message.type === "problem") this.#onProblem(message);
    else if (message.type === "observation") this.#observe(message);
    else this.#onEvent(message);
  }

  #onOpen(opening) {
    this.#failures = 0;
    this.#opening = opening;
    for (const [number, entry] of [...this.#unanswered]) {
      entry.isInFlight = false;
      // Beyond the window the server would decide the batch a second time.
      if (entry.isSent && opening.sim_time - entry.simTime > opening.window.seconds) {
        const told = `the server remembers a batch for ${opening.window.seconds} s, and was away longer; ask verdictOf(reqId), or look at the state`;
        this.#unanswered.delete(number);
        entry.reject(new UnknownOutcomeError(told, entry.reqIds));
      }
    }
    this.#tell("open", opening);
    this.#sendWaiting();
  }

  #onProblem({ number, problem }) {
    const error = new ProblemError(problem);
    if (number === null) this.#tell("error", error);
    else this.#answer(number, "reject", error);
  }

  #answer(number, settle, value) {
    const entry = this.#unanswered.get(number);
    if (entry === undefined) return;
    this.#unanswered.delete(number);
    entry[settle](value);
    this.#sendWaiting();
  }

  /** Send batches in the order of the calls, as many as the server reads. */
  #sendWaiting() {
    if (this.#opening === null) return;
    const roomMax = this.#opening.in_flight_max ?? IN_FLIGHT_MAX;
    let [batches, reqIds] = [0, 0];
    for (const [number, entry] of this.#unanswered) {
      batches += 1;
      reqIds += entry.reqIds.length; // beyond those that the server remembers, it would decide a batch again
      if (batches > roomMax || (batches > 1 && reqIds > this.#opening.window.req_ids)) return;
      if (entry.isInFlight) continue;
      const size = new TextEncoder().encode(entry.text).length;
      if (size > this.#opening.message_bytes_max) {
        const told = `a batch has at most ${this.#opening.message_bytes_max} bytes, got ${size}; split it, or POST it`;
        queueMicrotask(() => this.#answer(number, "reject", new RangeError(told)));
        entry.isInFlight = true;
        continue;
      }
      if (!entry.isSent) entry.simTime = this.#simTime;
      entry.isSent = entry.isInFlight = true;
      this.#socket.send(entry.text);
    }
  }

  #observe(observation) {
    if (observation.kind === "snapshot") this.view.clear();
    const changed = [];
    for (const { entity, op, fields } of observation.changes) {
      if (op === "removed") this.view.delete(entity);
      else this.view.set(entity, { ...(op === "changed" ? this.view.get(entity) : {}), ...fields });
      changed.push(entity);
    }
    this.#tell("view", this.view, changed, observation);
  }

  #onEvent(event) {
    if (event.record !== undefined) this.#nextRecord = event.record + 1;
    this.#tell("event", event);
  }

  #onClose(code, reason) {
    const wasOpen = this.#opening !== null;
    this.#opening = null;
    if (this.#isClosed) return;
    const longest = Math.min(RETRY_MS_MIN * 2 ** this.#failures++, RETRY_MS_MAX);
    const againMs = longest / 2 + (Math.random() * longest) / 2;
    this.#tell("close", { code, reason, againMs });
    this.#timer = setTimeout(() => this.#again(wasOpen), againMs);
  }

  /** Connect again, unless the server says that it is of no use. */
  async #again(wasOpen) {
    if (!wasOpen) {
      // A browser does not tell why a handshake was refused; a request does.
      const answer = await this.#ask("").catch(() => null);
      if (this.#isClosed) return;
      if (answer !== null && [401, 403, 404].includes(answer.status)) {
        const problem = await answer.json().catch(() => ({ detail: `HTTP ${answer.status}`, status: answer.status }));
        this.#end(new ProblemError(problem));
        return;
      }
    }
    this.#connect();
  }

  #end(error) {
    if (this.#isClosed) return;
    this.#isClosed = true;
    clearTimeout(this.#timer);
    this.#opening = null;
    this.#socket.close(1000);
    const left = [...this.#unanswered.values()];
    this.#unanswered.clear();
    for (const { reject, reqIds } of left) {
      reject(error ?? new UnknownOutcomeError("the client was closed before the verdict came", reqIds));
    }
    if (error !== null) this.#tell("error", error);
    this.#tell("close", { code: 1000, reason: error?.message ?? "", againMs: null });
  }
}

function reqIdsOf(batch) {
  const intents = Array.isArray(batch) ? batch : (batch.intents ?? [batch]);
  return intents.map((intent) => intent.req_id);
}
