// Two runs side by side: settings, the place where they part, series on common axes, and maps of one time.

import { ask } from "./api.js";
import { byId, made, show, write } from "./chart.js";
import { markCharts, showSeries, startCharts } from "./compare_chart.js";
import { nameMap, placeMap, startMaps } from "./compare_map.js";
import { Canceled, askLong, endWork, requireWanted, showWork, startWork } from "./compare_work.js";
import { short, tame, whole } from "./format.js";
import { complain, say, showOpened, stand, startSignIn } from "./sign_in.js";
import { cellText } from "./tree.js";

const INDEXING_MS = 300;
const NAMES = ["first", "second"];

let runs = ["", ""];
let ticks = [0, 0]; // of each run
let parting = null;
let wanted = null; // the newest tick that was asked for while another answer was awaited
let isAsking = false;

const historyPath = (run, rest = "") => `api/v1/worlds/${encodeURIComponent(run)}/history${rest}`;

async function open() {
  const given = new URLSearchParams(location.hash.slice(1));
  runs = NAMES.map((name) => given.get(name) ?? "");
  if (runs.includes("")) {
    stand("waiting", "no runs");
    return say("Choose two runs in the list, and press Compare.");
  }
  document.title = `${runs.map((run) => tame(run, 60)).join(" and ")} · placet`;
  await ask("api/v1/history"); // a token that is none is told before anything is shown
  showOpened();
  show("content", true);
  stand("waiting", "comparing");
  for (const [number, run] of runs.entries()) {
    byId(NAMES[number]).textContent = tame(run, 120);
    byId(NAMES[number]).href = `play#${new URLSearchParams({ world: run })}`;
    nameMap(number, tame(run, 120));
  }
  // One after another: the server answers one long question of a caller at a time.
  await part(readHistories, "maps-empty", "The maps were not read.");
  await part(readSeries, "series-says", "The series were not read.");
  await part(readParting, "parting", "Where they part was not found.");
  endWork();
  stand("ready", "ready");
}

/** Read a part of the page; an error is said in its place, and the other parts are read. */
async function part(read, id, unread) {
  try {
    await read();
  } catch (error) {
    if (error.status === 401) throw error;
    write(id, error instanceof Canceled ? unread : tame(error.message, 400));
    show(id, true);
  }
}

async function readSeries() {
  const found = [];
  for (const run of runs) found.push((await askLong(`api/v1/runs/${encodeURIComponent(run)}/series`, "Reading the series")).series);
  const count = showSeries(found);
  write("series-says", "The runs have no series.");
  show("series-says", count === 0);
}

async function readHistories() {
  for (const [number, run] of runs.entries()) {
    let history = await ask(historyPath(run));
    while (history.indexed < history.records) {
      requireWanted();
      showWork("Reading the states", history.indexed / history.records, `${tame(run, 60)}, record ${whole(history.indexed)} of ${whole(history.records)}`);
      await new Promise((resolve) => { setTimeout(resolve, INDEXING_MS); });
      history = await ask(historyPath(run));
    }
    ticks[number] = history.ticks;
  }
  const most = Math.max(...ticks);
  show("at-panel", most > 0);
  byId("tick").max = String(most);
  if (most > 0) await goTo(tickInAddress() ?? Math.round(most / 2));
}

async function readParting() {
  const found = await askLong(`api/v1/runs/comparison?${new URLSearchParams({ first: runs[0], second: runs[1] })}`, "Finding where they part");
  parting = found.parting;
  showSettings(found.settings);
  write("parting", partingText(parting));
  show("to-parting", !parting.is_equal && byId("tick").max !== "0");
  fill("kinds", parting.kinds, (one) => [tame(one.kind, 60), ...[one.admitted_first, one.admitted_second, one.refused_first, one.refused_second].map(whole)]);
  fill("states", parting.state, (one) => [tame(one.collection, 60), whole(one.entities), tame(one.example, 80), cellText(one.first, 60), cellText(one.second, 60)]);
  show("more", parting.kinds.length + parting.state.length > 0);
}

function partingText({ is_equal: isEqual, record, seq, tick, part: what, values, agent_count: agents }) {
  if (isEqual) return `The logs are equal in all ${whole(record)} records that both have.`;
  const [one, other] = values.map((value) => cellText(value, 60));
  const place = record === 0 ? "They differ from the beginning" : `They part in tick ${whole(tick + 1)}, at record ${whole(record)}, after seq ${whole(seq)}`;
  const acted = agents ? `. ${whole(agents)} ${agents === 1 ? "agent or population" : "agents and populations"} acted differently` : "";
  return `${place}: ${tame(what, 120)}: ${one} in the first run, ${other} in the second${acted}.`;
}

function showSettings(settings) {
  fill("differ", settings, ({ key, values }) => [tame(key, 80), ...values.map((value) => (typeof value === "number" ? short(value) : cellText(value, 80)))]);
  show("differ-empty", settings.length === 0);
}

function fill(id, rows, cells) {
  show(id, rows.length > 0);
  byId(id).tBodies[0].replaceChildren(...rows.map((row) => {
    const element = made("tr");
    for (const text of cells(row)) {
      const cell = made("td");
      cell.append(made("bdi", "", text));
      element.append(cell);
    }
    return element;
  }));
}

// one time of both

/** Go to a tick; of several wishes while one is answered, the last counts. */
async function goTo(tick) {
  wanted = tick;
  showTick(tick);
  if (isAsking) return;
  isAsking = true;
  try {
    while (wanted !== null) {
      const one = wanted;
      wanted = null;
      for (const [number, run] of runs.entries()) {
        const found = await ask(historyPath(run, `/moment?${new URLSearchParams({ tick: Math.min(one, ticks[number]), map: true })}`));
        if (wanted === null) placeMap(number, found);
      }
    }
  } finally {
    isAsking = false;
  }
}

function showTick(tick) {
  byId("tick").value = String(tick);
  write("at-tick", whole(tick));
  markCharts(tick);
  for (const [number, run] of runs.entries()) {
    const place = { world: run, tick: Math.min(tick, ticks[number]) };
    byId(`play-${NAMES[number]}`).href = `play#${new URLSearchParams(place)}`;
  }
  window.history.replaceState(null, "", `#${new URLSearchParams({ first: runs[0], second: runs[1], tick })}`);
}

function tickInAddress() {
  const tick = new URLSearchParams(location.hash.slice(1)).get("tick") ?? "";
  return /^\d+$/.test(tick) ? Math.min(Number(tick), Math.max(...ticks)) : null;
}

const seek = (tick) => goTo(Math.max(0, Math.min(tick, Number(byId("tick").max)))).catch(complain);

startMaps();
startWork();
startCharts((x) => { if (Math.max(...ticks) > 0) seek(x); });
byId("tick").addEventListener("input", ({ target }) => seek(Number(target.value)));
byId("to-parting").addEventListener("click", () => seek(parting.record === 0 ? 0 : parting.tick + 1));
startSignIn({ open, move: () => location.reload() });
