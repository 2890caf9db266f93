// The settings of a watched run: a control for each, and the runs that are started with other ones.

import { ask } from "./api.js";
import { byId, made, show, write } from "./chart.js";
import { tame, whole } from "./format.js";
import { cellText } from "./tree.js";

const START_MS = 600_000; // a fork of a long log
const READ_MS = 60_000;
const STEPS = 100;
const NAME_MAX = 120;

let doors = null; // {worldPath, moment, openRun}
let world = "";
let found = null; // {settings, seed, ticks}
let rows = []; // {setting, read, put, says, field}
let isStarting = false;

/** Take what the page can do; `openRun` opens a run by its name. */
export function startSettings(given) {
  doors = given;
  byId("settings-open").open = !matchMedia("(max-width: 34rem)").matches;
  byId("settings-form").addEventListener("submit", (event) => { event.preventDefault(); start("fork"); });
  byId("run-again").addEventListener("click", () => start("again"));
  byId("settings-undo").addEventListener("click", () => { for (const row of rows) row.put(row.setting.value); note(); });
  byId("again-seed").addEventListener("change", note);
  for (const kind of ["fork", "again"]) byId(`${kind}-name`).addEventListener("input", ({ target }) => { target.dataset.isOwn = target.value === "" ? "" : "yes"; });
}

export function clearSettings() {
  [found, rows] = [null, []];
  for (const id of ["settings", "run-from", "run-problem"]) show(id, false);
  for (const kind of ["fork", "again"]) {
    say(kind, "");
    byId(`${kind}-name`).dataset.isOwn = "";
  }
}

/** Ask for the settings of a run and show them; `isWanted` is false if another is shown by then.
 * The card is there at once: the server may import the model before it answers. */
export async function readSettings(name, isWanted) {
  show("settings", true);
  show("settings-form", false);
  write("settings-of", `of ${tame(name)}: reading them …`);
  let answer;
  try {
    answer = await ask(doors.worldPath("/settings"), { patienceMs: READ_MS });
  } catch (error) {
    if (isWanted()) write("settings-of", `of ${tame(name)} cannot be read: ${tame(error.message, 300)}`);
    throw error;
  }
  if (!isWanted()) return;
  [world, found] = [name, answer];
  rows = answer.settings.map(rowOf);
  for (const isStated of [true, false]) {
    const listed = rows.filter(({ setting }) => setting.is_stated === isStated);
    byId(isStated ? "settings-list" : "settings-unstated").replaceChildren(...listed.map(({ element }) => element));
    if (!isStated) show("settings-more", listed.length > 0);
  }
  show("settings-form", true);
  write("settings-of", `of ${tame(name)}`);
  note();
}

/** Show where a run came from, and whether it has failed. */
export function showRun(run, name) {
  show("run-from", run?.parent != null);
  show("run-problem", Boolean(run?.problem));
  if (run?.problem) write("run-problem", `This run ended: ${tame(run.problem, 600)}`);
  if (run?.parent == null) return;
  const changes = Object.entries(run.changes ?? {}).map(([key, [before, after]]) => `${tame(short(key), 60)} ${cellText(after)} (there ${cellText(before)})`);
  const what = run.tick === null ? `a run of ${tame(run.parent)} from the start, seed ${run.seed}` : `a fork of ${tame(run.parent)} at tick ${whole(run.tick)}`;
  const ended = run.running ? "" : " It has ended.";
  write("run-from-says", `${tame(name)} is ${what}${changes.length ? `, with ${changes.join(", ")}` : ""}.${ended}`);
  write("run-back", `Back to ${tame(run.parent)}`);
  byId("run-back").onclick = () => doors.openRun(run.parent);
}

/** Take over the moment that the page shows: a fork begins there. */
export function noteMoment() {
  if (!found) return;
  const { tick } = doors.moment();
  const isOver = tick >= found.ticks;
  byId("run-fork").disabled = isOver || isStarting;
  byId("run-fork").title = isOver ? "All ticks are run here: go back on the time line, or reset" : "";
  write("settings-of", `of ${tame(world)}; a fork begins at tick ${whole(tick)}`);
  propose("fork", [`${stem()}@${tick}`, ...namesOfChanges()].join(" "));
}

function note() {
  for (const row of rows) row.mark();
  byId("settings-undo").disabled = changed().length === 0;
  const isNext = byId("again-seed").value === "1";
  const parts = [...namesOfChanges(), ...(isNext ? [Number.isSafeInteger(found.seed + 1) ? `seed=${found.seed + 1}` : "next seed"] : [])];
  propose("again", [stem(), ...(parts.length ? parts : ["again"])].join(" "));
  if (doors.moment()) noteMoment();
}

const stem = () => world.split(/[@ ]/)[0] || world;
const changed = () => rows.filter(({ read, setting }) => read && read() !== setting.value);

function propose(kind, name) {
  const field = byId(`${kind}-name`);
  if (field.dataset.isOwn || field === document.activeElement) return;
  field.value = name.replaceAll(/[/\\]/g, "-").slice(0, NAME_MAX).replace(/[. ]+$/, "");
}

const namesOfChanges = () => changed().filter(({ read }) => read() !== null).map(named);
const named = ({ setting, read }) => `${short(setting.key)}=${String(read()).slice(0, 40)}`;

/** Return the last part of a key; with its cohort where two settings share it. */
function short(key) {
  const parts = key.split(".");
  const isShared = rows.filter(({ setting }) => setting.key.split(".").at(-1) === parts.at(-1)).length > 1;
  return isShared && parts.length > 2 ? `${parts[1]}.${parts.at(-1)}` : parts.at(-1);
}

// controls

function rowOf(setting, at) {
  const parts = setting.key.split(".");
  const element = made("div", "setting");
  const label = made("label");
  label.append(made("bdi", "", tame(parts.at(-1), 60)), " ", made("bdi", "small", parts.length > 2 ? tame(parts[1], 60) : ""));
  label.htmlFor = `setting-${at}`;
  const says = made("p", "small");
  says.id = `setting-${at}-says`;
  says.setAttribute("role", "status");
  const control = { boolean: boxOf, choice: choiceOf, text: textOf, integer: numberOf, number: numberOf }[setting.type]?.(setting, tame(parts.at(-1), 60));
  if (!control) {
    const value = made("bdi", "small fixed", cellText(setting.value, 200));
    value.id = label.htmlFor;
    element.append(label, value, made("p", "small", "no simple value: change it in the scenario’s file"));
    return { setting, element, read: null, put: () => {}, mark: () => {}, says, field: null };
  }
  control.field.id = label.htmlFor;
  control.field.setAttribute("aria-describedby", says.id);
  element.append(label, ...control.parts, says);
  const row = { setting, element, says, ...control };
  row.mark = () => {
    const value = row.read();
    const isChanged = value !== setting.value;
    element.classList.toggle("is-changed", isChanged);
    element.classList.toggle("is-outside", isOutside(setting, value));
    if (value === null) row.field.setAttribute("aria-invalid", "true");
    else row.field.removeAttribute("aria-invalid");
    says.className = value === null ? "refusal" : "small";
    const was = `was ${cellText(setting.value, 60)}`;
    says.textContent = value === null ? `expected a number; ${was}` : isOutside(setting, value) ? `${was}; ${outside(setting, value)}` : isChanged ? was : "";
  };
  return row;
}

/** Return whether a number is beyond the slider, which stands at its end then. */
const isOutside = ({ low, high }, value) => typeof value === "number" && typeof low === "number" && (value < low || value > high);

function outside({ low, high }, value) {
  const side = value < low ? `below the slider’s least, ${cellText(low)}` : `above the slider’s most, ${cellText(high)}`;
  return `${cellText(value)} is ${side}: the run gets ${cellText(value)}, and the model says whether it takes it`;
}

function numberOf(setting, label) {
  const slider = made("input");
  const field = made("input");
  const step = setting.type === "integer" ? 1 : (setting.high - setting.low) / STEPS;
  Object.assign(slider, { type: "range", min: setting.low, max: setting.high, step, ariaLabel: `${label}, slider` });
  Object.assign(field, { type: "number", step: "any", inputMode: "decimal", required: true });
  const put = (value) => { field.value = value; slider.value = value; };
  slider.addEventListener("input", () => { field.value = Number(Number(slider.value).toPrecision(6)); note(); });
  field.addEventListener("input", () => { if (field.value !== "") slider.value = field.value; note(); });
  put(setting.value);
  return { field, put, parts: [slider, field], read: () => (field.value === "" ? null : Number(field.value)) };
}

function boxOf(setting) {
  const field = made("input");
  Object.assign(field, { type: "checkbox", checked: setting.value });
  field.addEventListener("change", note);
  return { field, put: (value) => { field.checked = value; }, parts: [field], read: () => field.checked };
}

function textOf(setting) {
  const field = made("input");
  Object.assign(field, { type: "text", value: setting.value, spellcheck: false });
  field.addEventListener("input", note);
  return { field, put: (value) => { field.value = value; }, parts: [field], read: () => field.value };
}

function choiceOf(setting) {
  const field = made("select");
  field.append(...setting.choices.map((text) => new Option(tame(text, 60), text)));
  field.value = setting.value;
  field.addEventListener("change", note);
  return { field, put: (value) => { field.value = value; }, parts: [field], read: () => field.value };
}

// starting a run

async function start(kind) {
  if (isStarting || !found) return;
  const empty = changed().find(({ read }) => read() === null);
  if (empty) return refuse(empty, "expected a number");
  const settings = Object.fromEntries(changed().map(({ setting, read }) => [setting.key, read()]));
  const isNext = byId("again-seed").value === "1";
  const body = { name: byId(`${kind}-name`).value.trim(), settings };
  Object.assign(body, kind === "fork" ? { record: Math.max(0, doors.moment().record) } : { again: true, seed: isNext ? "next" : null });
  hold(true);
  say(kind, kind === "fork" ? "forking …" : "starting …");
  try {
    const made = await ask(doors.worldPath("/runs"), { body, patienceMs: START_MS });
    hold(false);
    await doors.openRun(made.world);
    byId("run-back").focus({ preventScroll: true });
  } catch (error) {
    hold(false);
    complain(kind, error);
  }
}

function hold(isHeld) {
  isStarting = isHeld;
  for (const id of ["run-fork", "run-again"]) byId(id).disabled = isHeld;
  if (!isHeld && doors.moment()) noteMoment();
}

/** Show a refusal beside its control; a free name is put in the place of one that is taken. */
function complain(kind, { message, document: told = {} }) {
  const row = rows.find(({ setting }) => setting.key === told.setting);
  if (row?.field) {
    say(kind, "");
    return refuse(row, message);
  }
  say(kind, message, true);
  if (told.setting !== "name") return;
  if (told.free) byId(`${kind}-name`).value = told.free;
  byId(`${kind}-name`).focus();
}

function refuse(row, message) {
  row.says.className = "refusal";
  row.says.textContent = tame(message, 600);
  row.field.setAttribute("aria-invalid", "true");
  if (!row.setting.is_stated) byId("settings-more").open = true;
  row.field.focus();
}

function say(kind, text, isRefusal = false) {
  byId(`${kind}-says`).className = isRefusal ? "refusal" : "small";
  write(`${kind}-says`, tame(text, 600));
}
