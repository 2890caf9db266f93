// Answers what the player asks of a server, from a run that is in the page itself.
//
// It stands in the place of api.js. What needs a replay is refused, with the command that answers it.

const LAST = 2 ** 31;
const CELL_CHARS = 160;
const STEP_RECORDS = 24;

/** The answer is no. */
export class Refusal extends Error {
  constructor(detail) {
    super(detail);
    this.status = 404;
    this.document = {};
  }
}

/** Nobody answered; here somebody always does. */
export class Away extends Error {}

export const hasToken = () => true;
export const setToken = () => {};
export const takeFromAddress = () => null;

// The run: {world, history, records: [{place, batches, seq, tick, sim_time, event, changes, agents}]}.
const run = await unpacked(document.getElementById("run").textContent);
const { records } = run;
const ticks = records.flatMap(({ event }, at) => (event.type === "tick" ? [at] : []));
const firstBatch = records.findIndex(({ event }) => event.intents);

let cursor = fresh();

async function unpacked(text) {
  const bytes = Uint8Array.from(atob(text.trim()), (one) => one.charCodeAt(0));
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).json();
}

function fresh() {
  return { at: -1, collections: new Map(), agents: new Map() };
}

/** Fold the records up to an index; backward begins anew, for a static page is short. */
function stateAt(index) {
  if (index < cursor.at) cursor = fresh();
  while (cursor.at < index) {
    cursor.at += 1;
    const { changes, agents } = records[cursor.at];
    for (const [name, entity, fields, isWhole] of changes) change(name, entity, fields, isWhole);
    for (const agent of agents) {
      if (agent.owner === null) cursor.agents.delete(agent.agent_id);
      else cursor.agents.set(agent.agent_id, agent);
    }
  }
  return cursor;
}

function change(name, entity, fields, isWhole) {
  if (!cursor.collections.has(name)) cursor.collections.set(name, new Map());
  const rows = cursor.collections.get(name);
  if (fields === null) rows.delete(entity);
  else rows.set(entity, isWhole ? fields : { ...rows.get(entity), ...fields });
  if (!rows.size) cursor.collections.delete(name);
}

const before = (one, record, batch) => one.event.record < record || (one.event.record === record && one.event.batch <= batch);

/** Find the last record with a property that holds for a beginning of them; -1 if for none. */
function last(holds) {
  let [low, high] = [0, records.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (holds(records[middle])) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}

function indexOf(given) {
  if (given.seq !== undefined) return Math.min(records.length - 1, last((one) => one.seq < Number(given.seq)) + 1);
  if (given.tick !== undefined) return atTick(Number(given.tick));
  if (given.record === undefined) return records.length - 1;
  return Math.max(0, last((one) => before(one, Number(given.record), Number(given.batch ?? LAST))));
}

function atTick(tick) {
  if (tick > 0 && tick > ticks.length) throw new Refusal(`the run has ${ticks.length} ticks`);
  return tick > 0 ? ticks[tick - 1] : Math.max(0, (firstBatch < 0 ? records.length : firstBatch) - 1);
}

function stepped(index, by, count) {
  if (by !== "tick" || !ticks.length) return Math.max(0, Math.min(records.length - 1, index + count));
  const done = ticks.filter((at) => at <= index).length;
  const wanted = done + count + (count < 0 && !ticks.includes(index) ? 1 : 0);
  if (wanted > ticks.length) return records.length - 1;
  return wanted > 0 ? atTick(wanted) : Math.min(index, atTick(0));
}

const point = (fields) => {
  const position = fields?.position;
  const isOne = Array.isArray(position) && (position.length === 2 || position.length === 3) && position.every(Number.isFinite);
  return isOne ? position.slice(0, 2) : null;
};

const cell = (value) => {
  if (value === null || value === undefined || typeof value === "number" || typeof value === "boolean") return value ?? null;
  const text = typeof value === "string" ? value : JSON.stringify(value);
  return text.length > CELL_CHARS ? `${text.slice(0, CELL_CHARS)}…` : text;
};

const head = ({ event, batches, seq, tick, sim_time: time }) =>
  ({ record: event.record, batch: event.batch, batches, seq, tick, sim_time: time });

function moment(given) {
  const index = stepped(indexOf(given), given.by ?? "record", Number(given.step ?? 0));
  const { collections, agents } = stateAt(index);
  const names = [...collections.keys()].sort();
  const answer = {
    ...head(records[index]),
    event: records[index].event,
    collections: names.map((name) => ({ name, count: collections.get(name).size })),
    agent_count: agents.size,
  };
  if (given.map) answer.map = names.map((name) => layer(name, collections.get(name))).filter(({ ids }) => ids.length);
  if (given.collection !== undefined) answer.table = table(given, collections.get(given.collection) ?? new Map());
  if (given.agents) answer.agents = agentRows(given, agents);
  if (given.events) answer.events = records.slice(Math.max(0, index + 1 - Number(given.events)), index + 1).map(({ event }) => event);
  return answer;
}

function layer(collection, rows) {
  const placed = [...rows].map(([id, fields]) => [id, point(fields)]).filter(([, one]) => one);
  return { collection, ids: placed.map(([id]) => id), x: placed.map(([, one]) => one[0]), y: placed.map(([, one]) => one[1]) };
}

function table({ collection, offset = 0, limit = 100, find = "" }, rows) {
  const ids = [...rows.keys()].filter((id) => id.includes(find)).sort();
  const page = ids.slice(Number(offset), Number(offset) + Number(limit));
  const fields = [...new Set(page.flatMap((id) => Object.keys(rows.get(id))))].slice(0, 24);
  return { collection, total: ids.length, offset: Number(offset), fields, rows: page.map((id) => [id, fields.map((name) => cell(rows.get(id)[name]))]) };
}

function agentRows({ agents: limit, find_agent: find = "" }, agents) {
  const names = [...agents.keys()].filter((name) => name.includes(find)).sort();
  return { total: names.length, offset: 0, rows: names.slice(0, Number(limit)).map((name) => agents.get(name)) };
}

function steps({ by = "tick", count = 20, ...given }) {
  const found = [];
  let index = indexOf(given);
  while (found.length < Number(count) && index < records.length - 1) {
    const end = by === "tick" && ticks.length ? ticks.find((at) => at > index) ?? records.length - 1 : index + 1;
    found.push(step(records.slice(index + 1, end + 1)));
    index = end;
  }
  return { steps: found };
}

function step(part) {
  const moved = {};
  const batches = part.filter(({ event }) => event.intents);
  for (const { changes } of part) {
    for (const [name, entity, fields, isWhole] of changes) {
      if (fields === null || isWhole || "position" in fields) (moved[name] ??= []).push([entity, point(fields)]);
    }
  }
  const count = (type) => batches.filter(({ event }) => event.type === type).reduce((sum, { event }) => sum + event.intent_count, 0);
  return { ...head(part.at(-1)), admitted: count("batch"), refused: count("refused"), moved, events: batches.slice(-STEP_RECORDS).map(({ event }) => event) };
}

function find({ agent, kind, refused, back, ...given }) {
  const from = indexOf(given);
  const matches = ({ event }) => event.intents && (!refused || event.type === "refused")
    && event.intents.some((one) => (agent === undefined || one.agent_id === agent) && (kind === undefined || one.kind === kind));
  const found = back ? records.slice(0, from).findLast(matches) : records.slice(from + 1).find(matches);
  return { place: found ? { record: found.event.record, batch: found.event.batch } : null };
}

function entity({ collection, entity: id, ...given }) {
  return { collection, entity: id, fields: stateAt(indexOf(given)).collections.get(collection)?.get(id) ?? null, is_cut: false };
}

const ANSWERS = { "": () => run.history, "/moment": moment, "/series": () => run.series, "/steps": steps, "/find": find, "/entity": entity };

export async function ask(path) {
  const [where, query = ""] = path.split("?");
  if (where === "api/v1/history") return { worlds: [{ world: run.world, fork: false }], live: false, runs: false };
  const answer = ANSWERS[where.split("/history")[1]];
  if (!answer) throw new Refusal("This page holds the run alone. What an agent saw, why, stories, plots over time and forks need its log: placet play STORE.");
  return answer(Object.fromEntries(new URLSearchParams(query)));
}

export const askText = async (path) => JSON.stringify(await ask(path));
