// Numbers and events in words. Plain texts: what is made of them is shown as text and never parsed.

// What would hide, or turn around, what stands beside it: the list of placet/schemas/printable.py.
const UNSEEN = /[\u0000-\u001f\u007f-\u009f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufe00-\ufe0d\ufeff\uffa0\ufff0-\ufffb\u{1bca0}-\u{1bca3}\u{1d173}-\u{1d17a}\u{e0000}-\u{e0fff}\ud800-\udfff]/gu;

/** Give a text that somebody wrote: one line, not too long, with escapes in place of what would hide, or turn around, what stands beside it. */
export function tame(value, charsMax = 128) {
  const text = typeof value === "string" ? value : String(JSON.stringify(value) ?? value);
  return safe(text.length > charsMax ? `${text.slice(0, charsMax)}…` : text, false);
}

/** Give a whole text with such escapes; `isOfLines` keeps its lines. */
export const safe = (text, isOfLines = true) => text.replace(UNSEEN, (one) => (isOfLines && one === "\n" ? one : escape(one)));

const SHORT = new Map([["\n", "\\n"], ["\r", "\\r"], ["\t", "\\t"]]);
const escape = (one) => SHORT.get(one) ?? Array.from({ length: one.length }, (_, k) => `\\u${one.charCodeAt(k).toString(16).padStart(4, "0")}`).join("");

export const whole = (value) => Math.round(value).toLocaleString("en").replaceAll(",", "\u202f");

/** Write a number for a legend: whole ones whole, others to four places. */
export const short = (value) => (Number.isInteger(value) ? whole(value) : String(Number(value.toPrecision(4))));

export function perSecond(value) {
  return value > 0 && value < 9.95 ? value.toFixed(1) : whole(value);
}

/** Seconds as a person says them. Rounded before the unit is chosen: no minute has 60 s left over. */
export function span(seconds) {
  if (!Number.isFinite(seconds)) return "more";
  const micros = Math.round(seconds * 1e6);
  if (micros < 1000) return `${micros} µs`;
  const millis = Number((seconds * 1000).toPrecision(seconds < 0.1 ? 2 : 3));
  if (millis < 1000) return `${millis} ms`;
  const tenths = Math.round(seconds * 10);
  if (tenths < 1200) return `${(tenths / 10).toFixed(1)} s`;
  const all = Math.round(seconds);
  if (all < 7200) return `${Math.floor(all / 60)} min ${all % 60} s`;
  const minutes = Math.round(seconds / 60);
  return `${whole(Math.floor(minutes / 60))} h ${minutes % 60} min`;
}

export const DURABILITY = {
  __proto__: null,
  memory: "gone with the process",
  off: "on the disk when the system writes it",
  normal: "may lose the last moments in a power cut",
  local: "on the server’s disk",
  full: "on the disk before it is answered",
};

const CLOCKS = { __proto__: null, realtime: "real time", stepped: "stepped", next_event: "to the next event" };
export const clockOf = (name) => CLOCKS[name] ?? tame(name);

// The types of events that are no batch: who did it, and what.
const OTHERS = {
  __proto__: null, // no type is named like a member of objects, but one may come
  header: (event) => ["", `the log of the world ${tame(event.world ?? "")} begins`],
  configured: () => ["", "limits and quotas were set"],
  registered: (event) => [event.agent_id, "joined"],
  agent_changed: (event) => [event.agent_id, event.what === "removed" ? "was removed" : `was changed: ${tame(event.what)}`],
  executor_changed: (event) => ["", `executor of ${tame(event.kind)} ${event.depth_max === null ? "ended" : "joined"}`],
  tick: () => ["", "a tick ended"],
  settled: (event) => ["", `${effectOf(event)} ${event.succeeded ? "succeeded" : "failed"}`],
  settlement_failed: (event) => ["", `${effectOf(event)}: its outcome could not be applied`],
  effect_changed: (event) => ["", `${effectOf(event)}: ${event.what === "in_doubt" ? "it is unknown whether it was done" : tame(event.what)}`],
  rules_changed: () => ["", "other rules decide from here on"],
  fork_adopted: () => ["", "was forked from another world"],
  patched: () => ["operator", "changed the state"],
  table_made: (event) => ["", `table ${tame(event.table)} of ${whole(event.count ?? 0)} rows`],
  columns: () => ["", ""],
};
const effectOf = ({ effect_kind: kind, effect_seq: seq }) => `effect ${kind ? `${tame(kind, 64)} ` : ""}of seq ${tame(seq)}`;

/** The reason of an effect that failed, as its record has it. */
const effectWhy = ({ type, output, error, why }) => ({ settled: output, settlement_failed: error, effect_changed: why })[type];

const ABOUT_AGENTS = new Set(["registered", "agent_changed"]);

/** Marks of a line, and their meaning for a screen reader. */
export const MARKS = {
  admitted: ["✓", "admitted"],
  refused: ["✕", "refused"],
  failed: ["✕", "not applied"],
  waits: ["…", "waits for a person"],
  agent: ["+", "agent"],
  other: ["·", ""],
};

// A batch that records the end of a plan is admitted also where the plan was not: it has the mark of the plan.
const ENDS = { __proto__: null, applied: "admitted", held: "waits", refused: "failed", failed: "failed" };
const OUTCOMES = {
  "session.end": ({ outcome }) => ENDS[outcome] ?? "other",
  "approvals.ask": () => "waits",
  "approvals.decide": ({ decision }) => (decision === "approve" ? "admitted" : "failed"),
};
const WHYS_MAX = 3;

/** Say an event in a line: {kind, seq, who, what, detail, whys: [{code, message}]}; null is not told. */
export function said(event) {
  if (event.type === "checkpoint") return null;
  const line = { kind: "other", seq: event.seq, who: "", what: "", detail: "", whys: [] };
  if (Array.isArray(event.intents) && event.intents.length) return ofBatch(event, line);
  const [who, what] = OTHERS[event.type]?.(event) ?? ["", tame(event.type)];
  if (event.type === "tick" && !(event.changes ?? []).length) return null;
  line.who = tame(who ?? "");
  line.what = what;
  if (event.type === "columns") return ofColumns(event, line);
  if (ABOUT_AGENTS.has(event.type)) line.kind = "agent";
  if (!line.who && event.type === "batch") line.what = "another agent’s batch";
  if (event.succeeded === false || event.type === "settlement_failed" || event.what === "in_doubt") line.kind = "failed";
  if (!line.who) line.detail = changed(event);
  const reason = line.kind === "failed" ? effectWhy(event) : null;
  if (reason) line.whys = [{ code: "", message: tame(reason, 300) }];
  return line;
}

/** Say an event in the story of an agent, who is not named again. */
export function saidOf(event, agent) {
  const line = said(event);
  if (line === null) return null;
  if (event.became && !ABOUT_AGENTS.has(event.type)) {
    line.what = [event.became === "removed" ? "was removed" : "joined", line.what].filter(Boolean).join(", as ");
    line.kind = "agent";
  }
  if (event.type === "columns" && event.row !== undefined) {
    line.kind = event.refusals.length ? "refused" : "admitted";
    line.what = `${tame(event.kind, 64)}, with ${tame(event.population)}`;
    line.who = "";
  }
  if (line.who === tame(agent)) line.who = "";
  if (event.is_failure && line.kind === "agent") line.kind = "failed";
  return line;
}

/** Say a column batch as counts: its rows are in the log. */
function ofColumns({ population, kind, rows, refused, refusals }, line) {
  if (kind === undefined) return { ...line, what: "columns were changed" };
  const count = typeof rows === "number" ? `${whole(rows)} ${rows === 1 ? "row" : "rows"}` : "all rows";
  line.kind = refused && refused === rows ? "refused" : "admitted";
  line.who = tame(population);
  line.what = `${tame(kind, 64)}: ${count}${refused ? `, ${whole(refused)} refused` : ""}`;
  return withWhys(refusals ?? [], line);
}

// The decision about a request: who did what to it.
const DECISIONS = { __proto__: null, approve: "approved", deny: "denied", expire: "was not decided in time", stale: "would not do what was shown" };
const REQUESTS = {
  "approvals.ask": ({ id, role, agent }) => ["", `request ${tame(id, 60)} of ${tame(agent)} waits for ${role ? `a person with the role ${tame(role)}` : "a person"}`],
  "approvals.amend": ({ id, by, reason }) => [by, `approved other intents in the place of request ${tame(id, 60)}`, reason],
  "approvals.decide": ({ id, by, decision, reason }) => (decision === "approve" || decision === "deny"
    ? [by, `${DECISIONS[decision]} request ${tame(id, 60)}`, reason]
    : ["", `request ${tame(id, 60)} ${DECISIONS[decision] ?? tame(decision)}`, reason]),
  "approvals.settle": ({ by, kind, outcome, reason }) => [by, `settled ${tame(kind, 64)} as ${tame(outcome)}`, reason],
};
const REFUSE = ".refuse_calls";

/** Whether an intent is a record about requests or calls of agents, who are named in its payload. */
export const isNote = ({ kind }) => Object.hasOwn(REQUESTS, kind) || kind.endsWith(REFUSE);

function ofBatch(event, line) {
  line.kind = event.type === "batch" ? outcomeOf(event.intents) : event.type === "refused" ? (isHeld(event) ? "waits" : "refused") : "other";
  line.who = listed(counted(event.intents.map(({ agent_id }) => tame(agent_id))), false);
  // An event of the player lists a few intents of a batch, and counts all of them.
  const kinds = event.kinds ?? counted(event.intents.map(({ kind }) => kind));
  line.what = listed(kinds.map(([kind, count]) => [tame(kind, 64), count]), true, event.kind_count);
  line.detail = payload(event.intents[0]);
  const [first, ...others] = event.intents;
  if (event.type === "batch" && Object.hasOwn(REQUESTS, first.kind)) {
    const [who, what, reason] = REQUESTS[first.kind](first.payload ?? {});
    const done = listed(counted(others.map(({ kind }) => tame(kind, 64))), true);
    line.who = tame(who ?? "");
    line.what = done ? `${what}: ${done}` : what;
    line.detail = reason ? tame(reason, 220) : others.length ? payload(others[0]) : "";
  }
  if (event.type === "scheduled") line.what += ", for later";
  const noted = event.noted ?? notedIn(event.intents);
  if (noted.length) {
    line.kind = "refused";
    line.who = listed(counted(noted.map(({ agent }) => tame(agent))), false);
    line.what = listed(counted(noted.map(({ tool }) => tame(tool, 64))), true);
    line.detail = "";
    return withWhys(noted.map(({ refusal }) => refusal), line);
  }
  withWhys(event.refusals ?? [], line);
  line.whys.push(...(event.asks ?? []).slice(0, WHYS_MAX).map((text) => ({ code: "asked because", message: tame(text, 300) })));
  return line;
}

/** Whether a batch was refused for nothing but the approval of a person; without refusals, which not every token is shown, it is unknown. */
const isHeld = ({ is_held: told, refusals }) => told ?? (refusals?.length > 0 && refusals.every(([, , code]) => code.split(".").at(-1) === "approval_required"));

/** Return the refused calls that the intents of a live event note, without their stages; the player has them beside the intents. */
const notedIn = (intents) => intents.flatMap(({ kind, payload: given }) =>
  (kind.endsWith(REFUSE) && Array.isArray(given?.calls)
    ? given.calls.map(({ tool, codes, message }) => ({ agent: given.agent, tool, refusal: [null, null, (codes ?? []).join(", "), message] }))
    : []));

function withWhys(refusals, line) {
  line.whys = refusals.slice(0, WHYS_MAX).map(([, stage, code, message]) =>
    ({ code: [stage, code].filter((one) => one !== null).map((one) => tame(one)).join("/"), message: readable(tame(message ?? "", 300)) }));
  if (refusals.length > WHYS_MAX) line.whys.push({ code: `${refusals.length - WHYS_MAX} more`, message: "" });
  return line;
}

// Messages name numbers exactly, for programs; to the third place they are a line for people.
const readable = (message) => message.replace(/-?\d+\.\d{4,}/g, (number) => String(Number(Number(number).toFixed(3))));

function outcomeOf(intents) {
  for (const { kind, payload: given } of intents) {
    if (Object.hasOwn(OUTCOMES, kind)) return OUTCOMES[kind](given ?? {});
  }
  return "admitted";
}

/** Count names: [[name, count]], in the order in which each came first. */
function counted(names) {
  const counts = new Map();
  for (const name of names) counts.set(name, (counts.get(name) ?? 0) + 1);
  return [...counts];
}

/** Join counted names; `total` is the number of different names, of which these are the first. */
function listed(counts, isCounted, total = counts.length) {
  const all = counts.map(([name, count]) => (isCounted && count > 1 ? `${name} ×${whole(count)}` : name));
  return total > 4 ? `${all.slice(0, 3).join(", ")} and ${total - 3} more` : all.join(", ");
}

function payload({ payload: given }) {
  if (given === null || typeof given !== "object") return "";
  const parts = Object.entries(given).slice(0, 6).map(([name, value]) => `${tame(name, 40)} ${tame(rounded(value), 120)}`);
  return tame(parts.join(" · "), 220);
}

// A position to 15 places is no line for people.
function rounded(value) {
  if (typeof value === "number") return Number.isInteger(value) ? value : Number(value.toPrecision(4));
  if (!Array.isArray(value)) return value;
  return value.every(Number.isFinite) ? value.slice(0, 8).map(rounded).join(", ") : value.slice(0, 8);
}

function changed({ changes }) {
  const entities = (changes ?? []).map(({ entity }) => tame(entity, 60));
  return entities.length ? `${entities.slice(0, 3).join(", ")}${entities.length > 3 ? ` and ${entities.length - 3} more` : ""}` : "";
}
