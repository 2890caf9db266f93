// The list of the runs in a folder: sorted by a heading, filtered by the server, with tags and notes.

import { ask, Refusal } from "./api.js";
import { byId, made, show, write } from "./chart.js";
import { short, span, tame, whole } from "./format.js";
import { editNote, startNote } from "./runs_note.js";
import { complain, say, showOpened, stand, startSignIn } from "./sign_in.js";

const ROUND_MS = 3_000;
const READING_MS = 400; // between two looks while the server reads logs
const TYPING_MS = 200;
const STATUSES = ["failed", "damaged", "killed", "stopped", "running", "empty", "closed", "ended", "finished"];
const FAILURES = new Set(["failed", "damaged", "killed"]);
const NOTE_CHARS = 120;
const ANCESTORS_MAX = 3;

const COLUMNS = [
  { key: "run", label: "run", value: (row) => row.run },
  { key: "status", label: "status", value: (row) => STATUSES.indexOf(row.status) },
  { key: "tags", label: "tags and note", value: (row) => `${row.tags.join(", ")} ${row.note}`.trim() },
  { key: "scenario", label: "scenario", value: (row) => row.scenario || row.world },
  { key: "seed", label: "seed", isNumber: true, value: (row) => row.seed },
];
const COUNTS = [
  ...["agents", "ticks", "admitted", "refused"].map((key) => ({ key, label: key, isNumber: true, value: (row) => row[key] })),
  { key: "date", label: "last write", value: (row) => row.modified_s },
];

let list = null;
let shown = ""; // the rows as they are in the page, as JSON
let sort = { key: "date", isDown: true };
let timer = 0;
const chosen = new Set();

const columns = () => [...COLUMNS, ...list.columns.map(settingColumn), ...COUNTS];

function settingColumn(key) {
  const value = (row) => row.settings[key];
  return { key, label: shortest(key), title: key, isSetting: true, isNumber: list.runs.every((row) => typeof (value(row) ?? 0) === "number"), value };
}

/** Return the end of a dotted key that no other column has. */
function shortest(key) {
  const parts = key.split(".");
  for (let count = 1; count < parts.length; count += 1) {
    const end = parts.slice(-count).join(".");
    if (list.columns.every((one) => one === key || !one.endsWith(`.${end}`))) return end;
  }
  return key;
}

// reading

async function read() {
  clearTimeout(timer);
  const find = byId("find").value;
  let wait = ROUND_MS;
  try {
    const found = await ask(`api/v1/runs?${new URLSearchParams(find ? { find } : {})}`);
    if (find !== byId("find").value) return;
    list = found;
    show("find-error", false);
    say("");
    if (list.unread) wait = READING_MS;
    showOpened();
    show("content", true);
    showList();
  } catch (error) {
    if (error instanceof Refusal && error.status === 422) {
      write("find-error", tame(error.message, 300));
      show("find-error", true);
      return;
    }
    complain(error);
    if (error instanceof Refusal && error.status === 401) return;
  }
  timer = setTimeout(() => { if (document.hidden) timer = setTimeout(read, wait); else read(); }, wait);
}

function showList() {
  stand("ready", list.unread ? `reading ${whole(list.unread)} logs` : "ready");
  const { length } = list.runs;
  const others = list.left_out ? `; ${whole(list.left_out)} more are left out, by their names` : "";
  write("runs-of", `${length === list.total ? whole(length) : `${whole(length)} of ${whole(list.total)}`} in ${tame(list.folder, 120)}${others}`);
  write("runs-empty", list.total ? "No run meets the filter." : "No log is in the folder yet. placet run SCENARIO --store FOLDER/NAME.db writes one.");
  show("runs-empty", length === 0);
  show("runs-scroll", length > 0);
  write("notes-problem", tame(list.problem, 400));
  show("notes-problem", list.problem !== "");
  write("columns-left-out", `The runs also differ in ${list.columns_left_out.map((key) => tame(key, 60)).join(", ")}.`);
  show("columns-left-out", list.columns_left_out.length > 0);
  const text = JSON.stringify([list.runs, list.columns, list.tags, sort, byId("failures-first").checked]);
  if (text === shown) return; // so that a reader keeps the focus, and a selected text
  shown = text;
  showTags();
  showRows();
}

function showTags() {
  show("tags", list.tags.length > 0);
  byId("tags").replaceChildren(...list.tags.map((tag) => {
    const button = made("button", "tag", tame(tag, 40), true);
    button.type = "button";
    const term = termOf(tag);
    button.ariaPressed = String(byId("find").value.includes(term));
    button.addEventListener("click", () => toggleTerm(term));
    return button;
  }));
}

const termOf = (tag) => `tag:${/[\s"\\]/.test(tag) ? JSON.stringify(tag) : tag}`;

function toggleTerm(term) {
  const field = byId("find");
  const has = field.value.includes(term);
  field.value = (has ? field.value.replace(term, "") : `${field.value} ${term}`).replace(/\s+/g, " ").trim();
  remember();
  read();
}

// the table

function showRows() {
  const focused = document.activeElement?.dataset?.focus;
  const all = columns();
  byId("runs").tHead.rows[0].replaceChildren(headOf("compare"), ...all.map(heading));
  byId("runs").tBodies[0].replaceChildren(...sorted(all).flatMap((row) => rowsOf(row, all)));
  const names = new Set(list.runs.map(({ run }) => run));
  for (const run of [...chosen]) if (!names.has(run)) chosen.delete(run);
  showChosen();
  if (focused) document.querySelector(`[data-focus="${CSS.escape(focused)}"]`)?.focus();
}

function sorted(all) {
  const { value } = all.find(({ key }) => key === sort.key) ?? all[0];
  const rank = (row) => (byId("failures-first").checked && !FAILURES.has(row.status) ? 1 : 0);
  return [...list.runs].sort((one, other) => rank(one) - rank(other) || compared(value(one), value(other)) || compared(one.run, other.run, false));
}

/** Compare two values in the direction of the sort; what is not known comes last in both. */
function compared(one, other, isDown = sort.isDown) {
  const [isNone, isOtherNone] = [one, other].map((value) => value === null || value === undefined || value === "");
  if (isNone || isOtherNone) return Number(isNone) - Number(isOtherNone);
  const order = typeof one === "number" && typeof other === "number" ? one - other : String(one).localeCompare(String(other), "en", { numeric: true });
  return isDown ? -order : order;
}

function headOf(label) {
  const head = made("th", "choice");
  head.scope = "col";
  head.append(made("span", "unseen", label));
  return head;
}

function heading({ key, label, title, isNumber }) {
  const head = made("th", isNumber ? "number" : "");
  head.scope = "col";
  const isSorted = sort.key === key;
  head.ariaSort = isSorted ? (sort.isDown ? "descending" : "ascending") : "none";
  const button = made("button", "link", "");
  button.type = "button";
  button.append(made("bdi", "", tame(label, 40)), made("span", "arrow", isSorted ? (sort.isDown ? " ▼" : " ▲") : ""));
  button.title = tame(title ?? label, 120);
  button.dataset.focus = `head ${key}`;
  button.addEventListener("click", () => {
    sort = { key, isDown: isSorted ? !sort.isDown : Boolean(isNumber) || key === "date" };
    remember();
    showList();
  });
  head.append(button);
  return head;
}

/** Return the row of a run, and under it its error if there is one. */
function rowsOf(row, all) {
  const element = made("tr", "run");
  element.append(choiceOf(row), ...all.map((column) => cellOf(row, column)));
  if (!row.error) return [element];
  const [why, cell] = [made("tr", "why"), made("td")];
  cell.colSpan = all.length;
  cell.append(made("bdi", "error", tame(row.error, 400)));
  why.append(made("td"), cell);
  return [element, why];
}

function choiceOf({ run }) {
  const cell = made("td", "choice");
  const box = made("input");
  box.type = "checkbox";
  box.ariaLabel = `compare ${tame(run, 120)}`;
  box.checked = chosen.has(run);
  box.dataset.focus = `choice ${run}`;
  box.addEventListener("change", () => {
    if (box.checked) chosen.add(run);
    else chosen.delete(run);
    showChosen();
  });
  cell.append(box);
  return cell;
}

function cellOf(row, { key, label, isNumber, isSetting, value }) {
  const cell = made("td", isNumber ? "number" : "");
  cell.dataset.label = label;
  if (key === "run") cell.replaceChildren(...nameOf(row));
  else if (key === "status") cell.append(statusOf(row));
  else if (key === "ticks") cell.textContent = ticksOf(row);
  else if (key === "date") cell.append(timeOf(row.modified_s));
  else if (key === "tags") cell.replaceChildren(...noteOf(row));
  else if (isSetting) cell.append(made("bdi", "", value(row) === undefined ? "–" : typeof value(row) === "number" ? short(value(row)) : tame(value(row), 80)));
  else if (isNumber) cell.textContent = countOf(row, key);
  else cell.append(made("bdi", "", tame(value(row), 80)));
  if (cell.textContent === "–" || cell.textContent === "") cell.classList.add("none");
  cell.classList.add(`of-${isSetting ? "setting" : key}`);
  return cell;
}

function statusOf({ status, ended_by: endedBy }) {
  const element = made("span", `status-of ${status}`, status || "…");
  if (endedBy) element.title = `ended by ${tame(endedBy, 120)}`;
  return element;
}

function nameOf({ run, status, lineage }) {
  if (status === "damaged" || status === "empty") return [made("bdi", "", tame(run, 120))];
  const link = playerOf(run, run);
  link.dataset.focus = `run ${run}`;
  return [link, ...lineageOf(lineage)];
}

function playerOf(run, text) {
  const link = made("a", "", tame(text, 120), true);
  link.href = `play#${new URLSearchParams({ world: run })}`;
  return link;
}

/** Return a line for each run that a log was forked from, the nearest first. */
function lineageOf(lineage) {
  const lines = [...lineage].reverse().slice(0, ANCESTORS_MAX).map(({ parent, run, tick, sim_time: time, changes, edits, left_out: leftOut }, at) => {
    const line = made("span", "lineage", at ? "itself a fork of " : "fork of ");
    const when = tick === null ? `after ${span(time)}` : `at tick ${whole(tick)}`;
    const values = Object.entries(changes).map(([key, [before, after]]) => `${tame(key.split(".").at(-1), 40)} ${valueText(after)} (there ${valueText(before)})`);
    const edited = edits.map((one) => (one.startsWith("-") ? `without ${tame(one.slice(1), 60)}` : `edited ${tame(one, 80)}`));
    const what = [...values, ...edited, ...(leftOut ? [`${whole(leftOut)} more`] : [])].join(", ");
    line.append(run === null ? made("bdi", "", tame(parent, 60)) : playerOf(run, run), ` ${when}${what ? `: ${what}` : ", nothing changed"}`);
    line.title = Object.keys(changes).map((key) => tame(key, 120)).join(", ");
    return line;
  });
  if (lineage.length > ANCESTORS_MAX) lines.push(made("span", "lineage", `and ${whole(lineage.length - ANCESTORS_MAX)} earlier forks`));
  return lines;
}

const valueText = (value) => (value === null ? "none" : typeof value === "number" ? short(value) : tame(value, 60));

function countOf(row, key) {
  if (row[key] === null) return list.unread && !row.error ? "…" : "–";
  if (key === "seed") return String(row.seed);
  return `${row.is_partial && key !== "agents" ? "≥ " : ""}${whole(row[key])}`;
}

function ticksOf({ ticks, ticks_planned: planned }) {
  if (ticks === null) return "–";
  return planned === null || planned === ticks ? whole(ticks) : `${whole(ticks)} of ${whole(planned)}`;
}

function timeOf(seconds) {
  const date = new Date(seconds * 1000);
  const two = (number) => String(number).padStart(2, "0");
  const time = made("time", "", `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())} ${two(date.getHours())}:${two(date.getMinutes())}`);
  time.dateTime = date.toISOString();
  return time;
}

function noteOf(row) {
  const button = made("button", "link edit", row.tags.length || row.note ? "Edit" : "Add");
  button.type = "button";
  button.ariaLabel = `${button.textContent} tags and note of ${tame(row.run, 120)}`;
  button.dataset.focus = `note ${row.run}`;
  button.addEventListener("click", () => editNote(row));
  const tags = row.tags.map((tag) => made("bdi", "tag", tame(tag, 40)));
  const note = row.note ? [made("bdi", "note", tame(row.note.replaceAll("\n", " "), NOTE_CHARS))] : [];
  return [...tags, ...note, button];
}

// two runs

function showChosen() {
  const button = byId("compare");
  button.disabled = chosen.size !== 2;
  button.textContent = chosen.size === 2 ? "Compare" : chosen.size < 2 ? `Compare (choose ${2 - chosen.size})` : `Compare (${chosen.size} chosen, 2 needed)`;
}

function openComparison() {
  const [first, second] = list.runs.map(({ run }) => run).filter((run) => chosen.has(run));
  location.assign(`compare#${new URLSearchParams({ first, second })}`);
}

// the address keeps the filter and the order, for the way back from a player

function remember() {
  const kept = { find: byId("find").value, sort: `${sort.isDown ? "-" : ""}${sort.key}`, failures: byId("failures-first").checked ? "" : "last" };
  window.history.replaceState(null, "", `#${new URLSearchParams(Object.entries(kept).filter(([, value]) => value !== ""))}`);
}

function recall() {
  const kept = new URLSearchParams(location.hash.slice(1));
  byId("find").value = kept.get("find") ?? "";
  const key = kept.get("sort") ?? "-date";
  sort = { key: key.replace(/^-/, ""), isDown: key.startsWith("-") };
  byId("failures-first").checked = kept.get("failures") !== "last";
}

let typing = 0;
byId("find").addEventListener("input", () => {
  clearTimeout(typing);
  typing = setTimeout(() => { remember(); read(); }, TYPING_MS);
});
byId("filter").addEventListener("submit", (event) => { event.preventDefault(); remember(); read(); });
byId("failures-first").addEventListener("change", () => { remember(); if (list) showList(); });
byId("compare").addEventListener("click", openComparison);
document.addEventListener("visibilitychange", () => { if (!document.hidden && list) read(); });
startNote(() => read());
recall();
showChosen();
startSignIn({ open: read, move: () => { recall(); read(); } });
