// Plays a run from its log: one moment at a time by jumps, and forward by steps that move the map.

import { ask, askText, Away, hasToken, Refusal } from "./api.js";
import { byId, made, show, write } from "./chart.js";
import { tame, whole } from "./format.js";
import { readApprovals } from "./approvals.js";
import { clearFaults, readFaults } from "./failures.js";
import { showRunFailure } from "./player_failure.js";
import { addToFeed, showFeed } from "./player_feed.js";
import { clearInspect, inspectEntity, inspectEvent, refreshInspect, showStory, startInspect } from "./player_inspect.js";
import { showHistory, showPosition, startLine } from "./player_line.js";
import { askSeries, clearSeries } from "./player_series.js";
import { clearSettings, noteMoment, readSettings, showRun, startSettings } from "./player_settings.js";
import { clearMap, drawnFrames, hasMap, mapQuery, markOnMap, placeAll, placeMoved, startMap } from "./player_map.js";
import { clearState, showState, startState, stateQuery } from "./player_state.js";
import { refusesToken, say, showOpened, stand, startSignIn, wordsOf } from "./sign_in.js";
import { showWorlds } from "./worlds.js";

const EVENTS = 60;
const BUFFER_MIN = 8;
const TABLES_MS = 400;
const READING_MS = 250;
const GROWING_MS = 1_000;
const CODES_MAX = 12;
const GLIDE_MAX_MS = 900;

let world = "";
let history = null;
let moment = null;
let wanted = null; // the newest place that was asked for while another answer was awaited
let isAsking = false;
let isAtEnd = false;
let hasFaults = true; // the server answers for the exceptions of this world
let isLive = false; // the server decides in the worlds that it plays
let play = null; // {steps, isFetching, next, tablesAt}

const path = (rest = "") => `api/v1/worlds/${encodeURIComponent(world)}/history${rest}`;
const query = (values) => new URLSearchParams(Object.entries(values).filter(([, value]) => value !== undefined && value !== "")).toString();

// asking for a moment

/** Go to a place; of several wishes while one is answered, the last counts. */
async function jump(place, { keepsPlaying = false } = {}) {
  if (!keepsPlaying) stop();
  wanted = place;
  if (isAsking) return;
  isAsking = true;
  try {
    while (wanted !== null) {
      const one = wanted;
      wanted = null;
      await showMoment(one);
    }
  } catch (error) {
    complain(error);
  } finally {
    isAsking = false;
  }
}

async function showMoment(place) {
  const of = world;
  const found = await ask(path(`/moment?${query({ ...place, map: true, ...mapQuery(), events: EVENTS, ...stateQuery() })}`));
  if (of !== world || wanted !== null) return;
  moment = found;
  byId("notice").hidden = true;
  placeAll(found);
  showFeed(found.events, inspectEvent);
  showHead(found);
  if (showState(found, inspectEntity)) await showTables();
  refreshInspect();
  remember();
}

/** Ask for the tables of the moment alone. */
async function showTables() {
  if (!moment) return;
  const at = moment;
  const found = await ask(path(`/moment?${query({ record: at.record, batch: at.batch, ...stateQuery() })}`));
  if (moment !== at) return;
  write("at-agents", whole(found.agent_count));
  if (showState(found, inspectEntity)) await showTables();
}

function showHead(head) {
  showPosition(head);
  noteMoment();
  write("moment-says", play ? "" : `seq ${head.seq}, tick ${head.tick}`);
  isAtEnd = history !== null && head.record >= history.records - 1;
  stand(play ? "ready" : "waiting", play ? "playing" : isAtEnd ? "at the end" : "in the past");
}

function remember() {
  if (location.protocol === "about:") return; // in a frame of a notebook
  window.history.replaceState(null, "", `#${query({ world, record: moment.record, batch: moment.batch })}`);
}

const here = () => (moment ? { record: moment.record, batch: moment.batch } : {});

function step(count) {
  if (moment) jump({ ...here(), step: count, by: byId("unit").value });
}

async function find(wish) {
  stop();
  try {
    const asked = { ...here(), ...wish };
    asked.record = Math.max(0, asked.record);
    const { place } = await ask(path(`/find?${query(asked)}`), { patienceMs: 60_000 });
    if (place === null) return say(`There is no ${wish.back ? "earlier" : "later"} ${wish.refused ? "refusal" : "intent"}${wish.agent ? ` of ${tame(wish.agent, 60)}` : ""}.`);
    await jump(place);
    const event = moment?.events.find(({ record, batch }) => record === place.record && batch === place.batch);
    if (event && !wish.agent) inspectEvent(event);
  } catch (error) {
    complain(error);
  }
}

// playing

function start() {
  if (play || !moment) return;
  play = { steps: [], isFetching: false, isEnded: false, next: 0, tablesAt: 0 };
  write("play", "Pause");
  showHead(moment);
  run(play);
}

function stop() {
  if (!play) return;
  play = null;
  write("play", "Play");
  if (moment) showHead(moment);
}

async function run(mine) {
  while (play === mine) {
    if (mine.steps.length < BUFFER_MIN && !mine.isFetching) fetchSteps(mine);
    const interval = 1000 / Number(byId("speed").value);
    const late = performance.now() - mine.next;
    if (mine.steps.length && late >= 0) {
      mine.next = late > interval ? performance.now() + interval : mine.next + interval;
      showStep(mine.steps.shift(), interval);
      if (performance.now() > mine.tablesAt) {
        mine.tablesAt = Infinity;
        showPlayedTables(mine);
      }
    } else if (mine.isEnded && !mine.steps.length) return finish(mine);
    await new Promise((resolve) => { setTimeout(resolve, Math.max(4, Math.min(50, mine.next - performance.now()))); });
  }
}

async function fetchSteps(mine) {
  mine.isFetching = true;
  const from = mine.steps.at(-1) ?? moment;
  const count = Math.min(100, Math.max(10, Math.round(Number(byId("speed").value) * 2)));
  try {
    const asked = { record: Math.max(0, from.record), batch: from.batch, by: byId("unit").value, count, ...mapQuery() };
    const { steps } = await ask(path(`/steps?${query(asked)}`));
    if (play !== mine) return;
    mine.steps.push(...steps);
    mine.isEnded = steps.length === 0;
  } catch (error) {
    if (play === mine && error.status === 429) await pause(error.document.retry_after ?? 1);
    else if (play === mine) { stop(); complain(error); }
  }
  mine.isFetching = false;
}

const pause = (seconds) => new Promise((resolve) => { setTimeout(resolve, 1000 * seconds); });

function showStep(next, interval) {
  const { moved, layers = [], events, ...head } = next;
  moment = { ...moment, batches: 1, ...head, events };
  placeMoved(moved, layers, interval >= 60 ? Math.min(GLIDE_MAX_MS, interval * 0.95) : 0);
  addToFeed(events, inspectEvent);
  showHead(moment);
}

async function showPlayedTables(mine) {
  const began = performance.now();
  await showTables().catch(() => {});
  refreshInspect();
  // What costs the server more, it is asked for the less often.
  if (play === mine) mine.tablesAt = performance.now() + Math.max(TABLES_MS, 4 * (performance.now() - began));
}

/** At the end: wait for more where the log grows, else stop there. */
async function finish(mine) {
  await readHistory().catch(complain);
  if (play !== mine) return;
  if (history && moment.record < history.records - 1) {
    mine.isEnded = false;
    return run(mine);
  }
  stop();
  await (hasMap() ? showTables() : jump(here())).catch(complain); // without a map, the moment says why
}

/** Show the moment in other colors; steps that are awaited have the colors of before. */
async function recolor() {
  const isPlaying = play !== null;
  await jump(here());
  if (isPlaying) start();
}

/** Read the fields of an entity as they are at the moment; null if there is none. */
async function readFields(collection, entity) {
  const { fields } = await ask(path(`/entity?${query({ ...here(), collection, entity })}`));
  return fields;
}

// the run

async function readHistory() {
  const of = world;
  const found = await ask(path());
  if (of !== world) return;
  const isGrown = history !== null && found.records > history.records;
  const isOver = history?.run?.running && !found.run.running; // its last rows are written
  const isCut = history && found.compactions > history.compactions;
  history = found;
  showHistory(found);
  showCodes(found.codes);
  showControls(found);
  showRun(found.run, world);
  showRunFailure(found.failure);
  if (isGrown || isOver) readSeries();
  byId("unit").options[0].disabled = found.ticks === 0;
  if (found.ticks === 0 && found.indexed >= found.records) byId("unit").value = "record";
  if (isCut) {
    say(`The log was compacted while it was played: it now begins at seq ${whole(found.start.seq)}, and the player goes on from there.`);
    if (moment && moment.record < found.start.record) await jump(found.first);
  }
}

/** Ask for the collected series; of a run in progress again, as it grows. */
function readSeries() {
  const of = world;
  askSeries(() => ask(path("/series")), () => of === world);
}

function showControls({ controls, paused, ticks_per_second: speed }) {
  show("control", controls.includes("pause"));
  show("world-step", controls.includes("step"));
  write("world-pause", paused ? "Resume the world" : "Pause the world");
  byId("world-step").disabled = !paused;
  show("run-speed", controls.includes("speed"));
  show("world-end", controls.includes("end"));
  const chosen = byId("ticks-per-second");
  if (document.activeElement === chosen) return;
  const value = speed === null ? "" : String(speed);
  if (![...chosen.options].some((one) => one.value === value)) chosen.add(new Option(`${speed} ticks a second`, value));
  chosen.value = value;
}

const worldPath = (rest) => `api/v1/worlds/${encodeURIComponent(world)}${rest}`;

async function control(rest, body) {
  try {
    await askText(worldPath(rest), body ? { body } : { method: "POST" });
    await readHistory();
  } catch (error) {
    complain(error);
  }
}

/** Follow a growing log to its end while the reader stays there. */
async function follow() {
  if (!history) return; // another world is being opened
  const isRead = history.indexed >= history.records;
  if (isAtEnd && moment && !play && isRead && moment.record < history.records - 1) await jump({});
}

async function suspend(agent, isSuspended) {
  await control(`/agents/${encodeURIComponent(agent)}/${isSuspended ? "suspend" : "resume"}`);
  say(isSuspended ? `${tame(agent, 60)} is suspended: its batches are refused until it is resumed.` : `${tame(agent, 60)} is resumed.`);
}

/** Read the exceptions of the process that has the world open; a fork is in none. */
async function readFaultsOf(of) {
  const isHere = await readFaults((after) => ask(worldPath(`/faults?after_s=${after}`)), () => of === world, momentButton);
  if (of === world) hasFaults = isHere;
}

/** Make the way to the moment at a seq. */
function momentButton(seq) {
  const button = made("button", "link small", `the moment at seq ${whole(seq)}`);
  button.type = "button";
  button.addEventListener("click", () => jump({ seq }));
  return button;
}

async function watch() {
  for (;;) {
    let wait = GROWING_MS;
    if (world && hasToken() && !document.hidden) {
      try {
        await readHistory();
        await follow();
        if (history?.controls.includes("approvals")) await readApprovals(worldPath);
        if (hasFaults && isLive) await readFaultsOf(world);
        document.body.classList.remove("away");
        if (history && history.indexed < history.records) wait = READING_MS;
      } catch (error) {
        complain(error);
      }
    }
    await new Promise((resolve) => { setTimeout(resolve, wait); });
  }
}

function showCodes(codes) {
  const rows = Object.entries(codes).sort(([, one], [, other]) => other - one).slice(0, CODES_MAX);
  show("why", rows.length > 0);
  show("why-empty", rows.length === 0);
  const most = Math.max(1, ...rows.map(([, count]) => count));
  byId("why").tBodies[0].replaceChildren(...rows.map(([code, count]) => {
    const row = made("tr");
    const name = made("td");
    const [stage, ...rest] = code.split("/");
    const meter = made("meter");
    meter.max = most;
    meter.value = count;
    meter.ariaHidden = "true";
    name.append(made("span", "stage", `${tame(stage)}/`), made("bdi", "", tame(rest.join("/"))), meter);
    row.append(name, made("td", "", whole(count)));
    return row;
  }));
}

async function open() {
  try {
    const { worlds, live } = await ask("api/v1/history");
    showHistories(worlds);
    const given = new URLSearchParams(location.hash.slice(1));
    const names = worlds.map((one) => one.world);
    showOpened();
    show("content", true);
    isLive = live;
    await openWorld(names.includes(given.get("world")) ? given.get("world") : names[0], placeIn(given));
    const agent = given.get("agent");
    if (agent) await inspectEntity(null, agent).then(() => showStory(agent));
  } catch (error) {
    if (error instanceof Refusal && error.status === 403) return refuseReader(error);
    complain(error);
  }
}

/** Return the place that an address names by a record, a seq or a tick; null if it names none. */
function placeIn(given) {
  const [record, seq, tick] = ["record", "seq", "tick"].map((name) => (/^\d+$/.test(given.get(name) ?? "") ? given.get(name) : null));
  if (record !== null) return { record, batch: given.get("batch") ?? undefined };
  if (seq !== null) return { seq };
  return tick === null ? null : { tick };
}

/** Tell a reader whose token may not play: the page keeps its ways out. */
function refuseReader(error) {
  show("leave", true);
  stand("failed", "refused", `${tame(error.message, 300)}. The page “Dashboard” shows the world as this token may see it, and the plans that wait for a decision of its name.`);
}

function showHistories(worlds) {
  const forks = new Set(worlds.filter(({ fork }) => fork).map((one) => one.world));
  showWorlds(worlds.map((one) => one.world), world, (name) => (forks.has(name) ? `${tame(name)} (fork)` : tame(name)));
}

async function openWorld(name, place) {
  stop();
  [world, history, moment, isAtEnd] = [name, null, null, false];
  clearMap();
  clearState();
  clearInspect();
  clearSeries();
  clearSettings();
  clearFaults();
  hasFaults = true;
  byId("worlds").value = name;
  document.title = `${tame(name)} · placet player`;
  await readHistory();
  readSeries();
  const isThere = jump(place ?? beginning()); // asked first: settings may import the model
  const areRead = history.run ? readSettings(name, () => name === world).catch(complain) : null;
  await isThere;
  await areRead;
}

/** The place at which a run is opened: the present of one in progress, the start of a finished one. */
function beginning() {
  if (isLive || history.controls.length) return {};
  return history.start.record ? history.first : { tick: 0 };
}

async function playFork(name, record) {
  showHistories((await ask("api/v1/history")).worlds);
  await openWorld(name, { record });
}

async function openRun(name) {
  showHistories((await ask("api/v1/history")).worlds);
  await openWorld(name, null);
}

// when it does not go on

function complain(error) {
  if (refusesToken(error)) return;
  if (error instanceof Refusal && error.status === 410) {
    say(`${tame(error.message, 300)}. The player goes on from there.`);
    return void jump(error.document.first ?? {});
  }
  if (error instanceof Away) document.body.classList.add("away");
  else if (!(error instanceof Refusal)) console.error(error);
  say(wordsOf(error));
}

function close() {
  stop();
  world = "";
}

// what the reader does

const KEYS = {
  " ": () => (play ? stop() : start()),
  ArrowLeft: (event) => step(event.shiftKey ? -10 : -1),
  ArrowRight: (event) => step(event.shiftKey ? 10 : 1),
  Home: () => jump({ tick: 0 }),
  End: () => jump({}),
  r: () => find({ refused: true }),
  R: () => find({ refused: true, back: true }),
};

function onKey(event) {
  const { target } = event;
  if (event.ctrlKey || event.metaKey || event.altKey || !moment) return;
  // The slider keeps its own keys: they go by seqs.
  const isField = target.id === "seek" ? event.key.length > 1 : target.closest("input, select, textarea, summary");
  if (isField) return;
  if (event.key === " " && target.closest("button, a")) return;
  const act = KEYS[event.key];
  if (!act) return;
  event.preventDefault();
  act(event);
}

function listen() {
  startLine((seq) => jump({ seq }));
  startMap((collection, id) => inspectEntity(collection, id), readFields, recolor);
  startState(() => showTables().catch(complain));
  startInspect({ path, moment: () => moment, jump, find, playFork, mark: markOnMap, suspend, mayControl: () => history?.controls.includes("suspend") });
  startSettings({ worldPath, moment: () => moment, openRun: (name) => openRun(name).catch(complain) });
  byId("world-end").addEventListener("click", () => control("/end"));
  byId("world-pause").addEventListener("click", () => control(history.paused ? "/resume" : "/pause"));
  byId("ticks-per-second").addEventListener("change", ({ target }) => control("/speed", { ticks_per_second: target.value === "" ? null : Number(target.value) }));
  byId("world-step").addEventListener("click", () => control("/step", { dt: 1 }));
  byId("play").addEventListener("click", () => (play ? stop() : start()));
  byId("back").addEventListener("click", () => step(-1));
  byId("on").addEventListener("click", () => step(1));
  byId("to-start").addEventListener("click", () => jump(history?.start.record ? history.first : { tick: 0 }));
  byId("to-end").addEventListener("click", () => jump({}));
  byId("refusal-on").addEventListener("click", () => find({ refused: true }));
  byId("refusal-back").addEventListener("click", () => find({ refused: true, back: true }));
  byId("jump").addEventListener("submit", (event) => {
    event.preventDefault();
    const number = byId("jump-number").value.trim();
    if (/^\d+$/.test(number)) jump({ [byId("jump-to").value]: number });
  });
  byId("worlds").addEventListener("change", ({ target }) => { openWorld(target.value, null).catch(complain); });
  document.addEventListener("keydown", onKey);
  globalThis.placetDrawnFrames = drawnFrames;
}

listen();
startSignIn({ open, close });
watch();
