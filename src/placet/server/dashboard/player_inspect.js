// Details: an entity or an agent, a record; what it saw, why it was answered so, and what if.

import { ask, Refusal } from "./api.js";
import { byId, made, show, write } from "./chart.js";
import { failure } from "./failures.js";
import { isNote, said, span, tame, whole } from "./format.js";
import { tracedRows } from "./player_series.js";
import { story } from "./player_story.js";
import { cellText, tree } from "./tree.js";

const LEDGER_MS = 60_000; // a replay of a long log
const FORK_MS = 600_000;

let doors = null; // {path, moment, jump, find, playFork, mark, mayControl, suspend}
let subject = null; // {collection, id} or {event}
let asked = 0;

/** Take what the page can do for this panel. */
export function startInspect(given) {
  doors = given;
  byId("inspect-close").addEventListener("click", () => { clearInspect(); byId("feed").focus(); });
}

export function clearInspect() {
  subject = null;
  asked += 1;
  write("h-inspect", "Details");
  byId("inspect-body").replaceChildren();
  show("inspect-empty", true);
  show("inspect-close", false);
  doors.mark(null, null);
}

/** Look at an entity; without a collection, at an agent, which may have an entity of its name. */
export async function inspectEntity(collection, id) {
  begin({ collection, id }, `${tame(id, 80)}`);
  doors.mark(collection, id);
  await refreshInspect(true);
}

/** Look at a record: a batch with its intents, or what else it says. */
export function inspectEvent(event) {
  const line = said(event) ?? { who: "", what: tame(event.type) };
  begin({ event }, line.who ? `${line.who}: ${line.what}` : line.what);
  doors.mark(null, null);
  fill([facts(event), buttonsOf(event), ...intents(event), ...refusals(event)]);
  byId("h-inspect").focus({ preventScroll: true });
}

/** Ask again for what is looked at, where the moment is another. */
export async function refreshInspect(isFirst = false) {
  if (!subject || subject.event) return;
  const turn = ++asked;
  const { collection, id } = subject;
  const moment = doors.moment();
  const names = collection === null ? moment.collections.map(({ name }) => name) : [collection];
  const found = [];
  for (const name of names.slice(0, 12)) {
    const query = new URLSearchParams({ record: moment.record, batch: moment.batch, collection: name, entity: id });
    const entity = await ask(doors.path(`/entity?${query}`)).catch(() => null);
    if (turn !== asked) return;
    if (entity?.fields) found.push(entity);
  }
  if (isFirst && collection === null && found.length) doors.mark(found[0].collection, id);
  const state = found.flatMap(({ collection: name, fields, is_cut: isCut }) => [
    made("p", "small quiet", isCut ? `${tame(name)}, shortened: it is very large` : tame(name)), tree(fields)]);
  if (!state.length) state.push(made("p", "quiet", "Nothing in the state has this name at this moment."));
  const kept = byId("inspect-body").querySelector(".answer");
  fill([agentButtons(id, found[0]), ...state]);
  if (kept && !isFirst) byId("inspect-body").append(kept);
  if (isFirst) byId("h-inspect").focus({ preventScroll: true });
}

function begin(next, title) {
  subject = next;
  asked += 1;
  write("h-inspect", title);
  show("inspect-empty", false);
  show("inspect-close", true);
}

const fill = (elements) => byId("inspect-body").replaceChildren(...elements.filter(Boolean));

function facts(event) {
  const at = [`seq ${whole(event.seq)}`, `record ${whole(event.record)}`, span(event.sim_time)];
  if (event.population) at.push(`${event.rows === null ? "all rows" : `${whole(event.rows)} rows`} at one moment, each admitted or refused by itself`);
  else if (event.intent_count > 1) at.push(`${whole(event.intent_count)} intents, all or none`);
  return made("p", "small quiet", at.join(" · "));
}

function row(...buttons) {
  const element = made("div", "actions");
  element.append(...buttons.filter(Boolean));
  return element;
}

function button(label, act) {
  const element = made("button", "", label);
  element.type = "button";
  element.addEventListener("click", () => act(element));
  return element;
}

function agentButtons(id, entity) {
  return row(
    button("Story", () => showStory(id)),
    button("What it saw", () => answer("Asking what it saw …", () => seen(id))),
    button("‹ intent", () => doors.find({ agent: id, back: true })),
    button("intent ›", () => doors.find({ agent: id })),
    button("refusal ›", () => doors.find({ agent: id, refused: true })),
    entity && button("Over time", () => answer("Reading its fields along the run …", () => overTime(entity))),
    rowEvent(id) && button("Why", () => answer("Asking why …", () => why(rowEvent(id), id))),
    button("Fork from here …", () => showFork(entity ? `${entity.collection}/${entity.entity}` : "", entity?.fields)),
    doors.mayControl() && button("Suspend", () => doors.suspend(id, true)),
    doors.mayControl() && button("Resume", () => doors.suspend(id, false)),
  );
}

/** Show the story of an agent under what is looked at. */
export const showStory = (id, request = "") => answer("Reading its story …", () => story(doors, id, request));

/** Return the column batch that the moment is after, if the agent is of its population. */
function rowEvent(id) {
  const { event } = doors.moment();
  return event?.population && id.startsWith(`${event.population}:`) ? event : null;
}

function buttonsOf(event) {
  const first = event.intents?.[0];
  const act = event.intents?.find((one) => !isNote(one));
  const names = [...new Set((event.intents ?? []).map(({ agent_id: name }) => name))];
  return row(
    button("Why", () => answer("Asking why …", () => why(event))),
    act && button("Story of this request", () => showStory(act.agent_id, keyOf(act.req_id))),
    button("Go there", () => doors.jump({ record: event.record, batch: event.batch })),
    ...names.slice(0, 4).map((name) => {
      const element = button("", () => inspectEntity(null, name));
      element.append(made("bdi", "", tame(name, 40)));
      return element;
    }),
    button(first ? "Fork before it …" : "Fork from here …", () => showFork("", null, event)),
  );
}

/** Return the part of a req_id that is the same in every submission. */
const keyOf = (reqId) => reqId.slice(0, Math.max(0, reqId.lastIndexOf("/"))) || reqId;

function intents(event) {
  return (event.intents ?? []).map((intent) => {
    const part = made("section", "intent");
    const head = made("p");
    head.append(made("bdi", "who", tame(intent.agent_id, 60)), " ", made("bdi", "", tame(intent.kind, 60)), " ",
      made("bdi", "quiet small", `${tame(intent.req_id, 60)}, decided on seq ${whole(intent.context_seq)}`));
    part.append(head, tree(intent.payload), ...(intent.expect ?? []).map((text) => made("p", "small expects", `expects ${tame(text, 300)}`)));
    return part;
  });
}

function refusals(event) {
  return (event.refusals ?? []).map(([, stage, code, message]) => {
    const part = made("p", "refusal");
    part.append(made("bdi", "code", `${tame(stage)}/${tame(code)}`), " ", made("bdi", "", tame(message ?? "", 600)));
    return part;
  });
}

/** Show an answer under what is looked at; while it is asked for, say so. */
async function answer(waiting, asking) {
  const turn = ++asked;
  const box = made("section", "answer");
  box.setAttribute("aria-live", "polite");
  box.append(made("p", "quiet", waiting));
  byId("inspect-body").querySelector(".answer")?.remove();
  byId("inspect-body").append(box);
  try {
    const elements = await asking();
    if (turn === asked) box.replaceChildren(...elements);
  } catch (error) {
    if (turn === asked) box.replaceChildren(made("p", "refusal", error instanceof Refusal ? tame(error.message, 600) : `No answer: ${error.message}`));
  }
}

/** Plot the fields of an entity along the whole run. */
async function overTime({ collection, entity }) {
  const { series, left_out: leftOut, every, unit } = await ask(doors.path(`/trace?${new URLSearchParams({ collection, entity })}`), { patienceMs: LEDGER_MS });
  const rows = tracedRows(series, collection);
  const notes = [
    every > 1 && `Read after every ${whole(every)} ${unit}s: a value that lasted less may be missing here.`,
    leftOut.length > 0 && `Not drawn: ${leftOut.slice(0, 12).map((name) => tame(name, 40)).join(", ")}${leftOut.length > 12 ? ", …" : ""}.`,
  ];
  return [
    made("h3", "", `${tame(entity, 60)} along the run`),
    ...(rows.length ? rows : [made("p", "quiet", "None of its fields is a number, a text, or true or false.")]),
    ...notes.filter(Boolean).map((note) => made("p", "quiet small", note)),
  ];
}

async function seen(id) {
  const { record } = doors.moment();
  const query = new URLSearchParams({ record: Math.max(0, record), agent: id });
  const view = await ask(doors.path(`/view?${query}`), { patienceMs: LEDGER_MS });
  const heading = made("h3", "", `What ${tame(id, 60)} could see at seq ${whole(view.seq)}`);
  if (!view.collections.length) return [heading, made("p", "quiet", "Nothing.")];
  return [heading, ...view.collections.map(({ name, count, rows }) => {
    const details = made("details");
    details.open = count <= 20;
    const summary = made("summary");
    summary.append(made("bdi", "key", tame(name, 60)), " ", made("span", "quiet", whole(count)));
    const table = made("table", "data");
    table.append(...rows.slice(0, 50).map(([entity, fields]) => {
      const line = made("tr");
      const named = made("th");
      named.scope = "row";
      named.append(made("bdi", "", tame(entity, 60)));
      const values = made("td");
      values.append(made("bdi", "", Object.entries(fields).map(([key, value]) => `${tame(key, 40)} ${cellText(value, 80)}`).join(" · ")));
      line.append(named, values);
      return line;
    }));
    details.append(summary, table);
    if (count > 50) details.append(made("p", "quiet small", `and ${whole(count - 50)} more`));
    return details;
  })];
}

/** Ask why a request was answered so; of a column batch, `agent` names a row. */
async function why(event, agent = null) {
  const first = event.intents?.[0];
  const query = new URLSearchParams(first ? { agent: first.agent_id, req_id: first.req_id } : { seq: event.seq, ...(agent ? { agent } : {}) });
  const told = await ask(doors.path(`/explain?${query}`), { patienceMs: LEDGER_MS });
  const heading = made("h3", "", `Why: ${tame(told.answer)}`);
  const stages = made("ol", "stages");
  stages.append(...(told.stages ?? []).map(({ stage, result, compared, refusals: nos }) => {
    const item = made("li", result === "refused" ? "refused" : result.startsWith("passed") ? "passed" : "skipped");
    const details = made("details");
    details.open = result === "refused";
    const summary = made("summary");
    summary.append(made("b", "", tame(stage)), " ", made("span", "result", tame(result)));
    details.append(summary);
    for (const no of nos ?? []) details.append(made("p", "refusal", `${tame(no.code)}: ${tame(no.message ?? "", 600)}`));
    details.append(...(compared ?? []).flatMap(({ conditions, ...values }) => [...(conditions ?? []).map(condition), tree(values, false)]));
    item.append(details);
    return item;
  }));
  const changes = (told.changes ?? []).map(({ entity, what, fields }) => {
    const part = made("div", "change");
    part.append(made("p", "", `${tame(what)} ${tame(entity, 100)}`));
    part.append(tree(Object.fromEntries(Object.entries(fields ?? {}).map(([name, { before, after }]) => [name, `${cellText(before)} → ${cellText(after)}`]))));
    return part;
  });
  const ends = (told.effects ?? []).map(({ kind, outcome }) => {
    const { status, output, wall_time: at, sim_time: time } = outcome;
    const when = at ? `${tame(at.slice(0, 19).replace("T", " "))} UTC` : time === null ? "" : span(time);
    return made("p", status === "failed" || status === "in_doubt" ? "refusal" : "small", `${tame(kind, 64)}: ${tame(status.replace("_", " "))}${when ? ` at ${when}` : ""}${output === null ? "" : `: ${cellText(output, 300)}`}`);
  });
  const faults = (told.faults ?? []).map(({ where, ...fault }) => failure({ ...fault, about: [where] }));
  const notes = (told.notes ?? []).map((note) => made("p", "quiet small", tame(note, 400)));
  return [heading, ...faults, stages, ...(ends.length ? [made("h3", "", "How it ended"), ...ends] : []), ...(changes.length ? [made("h3", "", "What it changed"), ...changes] : []), ...notes];
}

/** Build the text of a condition and of the value found at its path. */
function condition({ text, found, holds, is_absent: isAbsent }) {
  return made("p", holds ? "small expects" : "refusal", `expects ${tame(text, 300)}: found ${isAbsent ? "nothing" : cellText(found)}`);
}

function showFork(path, fields, event = null) {
  const moment = doors.moment();
  const record = Math.max(0, event ? event.record - (event.intents ? 1 : 0) : moment.record);
  const name = fields ? Object.keys(fields).find((one) => one === "position") ?? Object.keys(fields)[0] : undefined;
  const form = made("form", "fork");
  const box = made("section", "answer");
  box.append(made("h3", "", `Fork after record ${whole(record)}`), form);
  form.append(made("p", "small quiet", "Another run from this record on, played beside this one. The log itself is not changed."));
  const where = field(form, "Set", "fork-path", path && name !== undefined ? `${path}/${name}` : path, "collection/entity/field");
  const value = field(form, "to (JSON)", "fork-value", path && name !== undefined ? JSON.stringify(fields[name]) : "", "as it was");
  const dropped = field(form, "Without the agent", "fork-drop", "", "none");
  const label = made("label", "check");
  const replay = made("input");
  replay.type = "checkbox";
  replay.id = "fork-replay";
  replay.checked = true;
  label.append(replay, " decide again what the agents submitted later");
  const says = made("p", "small");
  says.setAttribute("role", "status");
  const submit = made("button", "primary", "Fork");
  submit.type = "submit";
  form.append(label, submit, says);
  form.addEventListener("submit", async (given) => {
    given.preventDefault();
    submit.disabled = true;
    says.className = "small";
    says.textContent = "forking …";
    try {
      box.replaceChildren(...await fork(record, where.value.trim(), value.value.trim(), dropped.value.trim(), replay.checked));
    } catch (error) {
      says.className = "small refusal";
      says.textContent = tame(error.message, 600);
    }
    submit.disabled = false;
  });
  byId("inspect-body").querySelector(".answer")?.remove();
  byId("inspect-body").append(box);
  where.focus();
}

function field(form, label, id, value, placeholder) {
  const element = made("label", "", label);
  const input = made("input");
  Object.assign(input, { id, value, placeholder, spellcheck: false, autocomplete: "off" });
  element.append(input);
  form.append(element);
  return input;
}

async function fork(record, path, value, dropped, isReplayed) {
  let parsed = null;
  if (path) {
    if (!value) throw new Error("the value is missing: give JSON, such as [0, 0, 0]; null deletes an entity");
    try {
      parsed = JSON.parse(value);
    } catch (error) {
      throw new Error(`the value is not JSON (a text stands in double quotes): ${error.message}`);
    }
  }
  const body = { record, replay: isReplayed, put: path ? { [path]: parsed } : {}, dropped: dropped ? [dropped] : [] };
  const forked = await ask(doors.path("/forks"), { body, patienceMs: FORK_MS });
  const elements = [made("h3", "", `Forked at seq ${whole(forked.seq)}`)];
  const report = forked.counterfactual;
  if (report) {
    const list = made("dl", "outcome");
    for (const [label, key] of [["batches decided again", "batches"], ["same result", "same"], ["now refused", "refused_instead"], ["now admitted", "admitted_instead"], ["same result, other changes", "other_changes"]]) {
      if (report[key] === undefined) continue;
      const pair = made("div");
      pair.append(made("dt", "", label), made("dd", "", whole(report[key])));
      list.append(pair);
    }
    elements.push(list);
  }
  elements.push(row(button("Play the fork", () => doors.playFork(forked.world, forked.record))));
  if (forked.command) {
    elements.push(made("p", "small quiet", "It goes with this player. To keep it:"), made("pre", "command", tame(forked.command, 2_000)));
  }
  return elements;
}
