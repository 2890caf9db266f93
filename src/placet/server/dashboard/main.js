// Looks at a world, round by round, and only while somebody looks at the page.
//
// It asks for the newest records instead of holding a stream: a busy world has thousands of events a
// second, and people read a few. What costs the server more, it asks for the less often.

import { ask, askText, Away, hasToken, Refusal } from "./api.js";
import { clearApprovals, readApprovals } from "./approvals.js";
import { byId, made, show, write } from "./chart.js";
import { clearFeed, startFeed, tell } from "./events.js";
import { clearFaults, readFaults } from "./failures.js";
import { clearMap, collections, placeAll, placeChanged, startMap } from "./map.js";
import { History, parseMetrics, reading, total } from "./metrics.js";
import { showAgents, showFacts, showLoad, showRates, SPAN_MS } from "./panels.js";
import { tame, whole } from "./format.js";
import { refusesToken, showOpened, stand, startSignIn } from "./sign_in.js";
import { showReader, showWorlds, startRounds, wake } from "./worlds.js";

const ROUND_MS = 1_000;
const RETRY_MS = [1_000, 2_000, 3_000, 5_000];
const EVENTS_MAX = 60;
const EVENTS_MIN = 4;
const ANSWER_CHARS_MAX = 300_000;
const ACTS_MAX = 2_000;
const STRANGER_ROUNDS = 10;
const SHARE = 50; // what took a time is not asked for again within so many times as long
const MAP_AGENTS_MAX = 5_000;

const worldPath = (rest = "") => `api/v1/worlds/${encodeURIComponent(looking.name)}${rest}`;

// Another token or world is another object: what was asked of the one before is not shown.
let looking = fresh("");
let failures = 0;

/** What is known of the world that is looked at. */
function fresh(name) {
  return {
    name,
    submitter: null,
    round: 0,
    next: null,
    limit: EVENTS_MAX,
    metrics: null,
    mayMeasure: true,
    history: new History(SPAN_MS),
    own: { admitted: 0, refused: 0, refusals: new Map() },
    acts: new Map(),
    agentsAt: 0,
    mapAt: 0,
    isMapAsked: false,
    isMapped: false,
    hasGap: true,
    isReady: true,
    why: "",
    isStranger: false, // the token is of no agent in this world, such as that of a person who decides
    hasPlans: true,
  };
}

function beginAgain(name) {
  const { submitter } = looking;
  looking = fresh(name);
  looking.submitter = submitter;
  clearFeed();
  clearMap();
  clearApprovals();
  clearFaults();
}

// the rounds

/** Look once, and give when to look again; null is when somebody says so. */
async function once() {
  const asked = looking;
  try {
    if (!looking.submitter) await findWorlds();
    await look();
    failures = 0;
    document.body.classList.remove("away");
    return ROUND_MS;
  } catch (error) {
    if (looking !== asked && !hasToken()) return 0; // the token was forgotten meanwhile
    if (refusesToken(error)) return null;
    return goneAway(error);
  }
}

async function findWorlds() {
  const before = looking;
  const { worlds, submitter } = await ask("api/v1/worlds");
  if (looking !== before) return;
  const names = worlds.map(({ world }) => world);
  const name = names.includes(looking.name) ? looking.name : names[0] ?? "";
  beginAgain(name);
  looking.submitter = submitter;
  showWorlds(names, name);
  showReader(submitter);
  document.title = `${tame(name)} · placet`;
  showOpened();
}

async function look() {
  let at = looking;
  const world = await ask(worldPath());
  if (looking !== at || !hasToken()) return;
  if (at.next !== null && world.records < at.next) {
    beginAgain(at.name); // a world in memory that was begun again
    at = looking;
  }
  const found = await readEvents(at, world);
  if (looking === at && at.round % 2 === 0) {
    await readReadiness(at);
    await readMetrics(at);
    await readPlans(at);
    if (at.mayMeasure) await readFaults((after) => ask(worldPath(`/faults?after_s=${after}`)), () => looking === at, momentLink);
  }
  if (looking !== at) return;
  at.round += 1;
  showWorld(world, found);
  if (at.isStranger) return;
  await readAgents(at);
  if (looking === at) await readMap(at);
}

// what is asked for

async function readEvents(at, world) {
  const from = Math.max(0, world.records - at.limit, at.next ?? 0);
  if (at.isStranger) at.isStranger = at.round % STRANGER_ROUNDS !== 0; // may be registered meanwhile
  if (from >= world.records || at.isStranger) return { events: [], missed: 0 };
  try {
    const text = await askText(worldPath(`/events?from_record=${from}&limit=${at.limit}`));
    const { events, next_record: next } = JSON.parse(text);
    const missed = at.next === null ? 0 : from - at.next;
    at.next = next;
    at.hasGap ||= missed > 0;
    at.limit = text.length > ANSWER_CHARS_MAX
      ? Math.max(EVENTS_MIN, Math.floor(at.limit / 2))
      : Math.min(EVENTS_MAX, at.limit + 4);
    return { events, missed };
  } catch (error) {
    if (error instanceof Refusal && error.status === 404 && at.submitter !== "operator") {
      at.isStranger = true;
      return { events: [], missed: 0 };
    }
    if (!(error instanceof Refusal && error.status === 410)) throw error;
    at.next = error.document.next_record ?? world.records; // compacted
    return { events: [], missed: 0 };
  }
}

/** Read the requests for approval; a world without the domain `approvals` has none. */
async function readPlans(at) {
  if (!at.hasPlans) return;
  const found = await readApprovals(worldPath);
  at.hasPlans = found !== null;
  const count = found?.waiting;
  write("plans", count ? `${whole(count)} ${count === 1 ? "request waits" : "requests wait"} for your decision` : "");
}

async function readReadiness(at) {
  try {
    await ask("readyz");
    [at.isReady, at.why] = [true, ""];
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    [at.isReady, at.why] = [false, tame(error.message, 300)];
  }
}

async function readMetrics(at) {
  if (!at.mayMeasure) return;
  try {
    at.metrics = parseMetrics(await askText(`metrics?world=${encodeURIComponent(at.name)}`));
    at.history.add(reading(at.metrics, performance.now()));
  } catch (error) {
    if (!(error instanceof Refusal && error.status === 403)) throw error;
    at.mayMeasure = false;
  }
}

/** Make the link to the moment of the player at a seq. */
function momentLink(seq) {
  const link = made("a", "small", `the moment at seq ${whole(seq)}`);
  link.href = `play#${new URLSearchParams({ world: looking.name, seq })}`;
  return link;
}

/** Make the name of an agent: for the operator the link to its story in the player. */
function storyLink(agent) {
  const name = made("bdi", "", tame(agent));
  if (!looking.mayMeasure) return name;
  const link = made("a");
  link.append(name);
  link.href = `play#${new URLSearchParams({ world: looking.name, agent })}`;
  return link;
}

async function readAgents(at) {
  if (performance.now() < at.agentsAt) return;
  const { took, value } = await timed(() => ask(worldPath("/agents?limit=100")));
  at.agentsAt = performance.now() + Math.max(3_000, SHARE * took);
  if (looking === at) showAgents(value, at.acts, agentCount(), storyLink);
}

/** Read the state where changes were missed; what was told of meanwhile is on the map already. */
async function readMap(at) {
  const isLarge = agentCount() > MAP_AGENTS_MAX && !at.isMapAsked;
  write("map-ask", isLarge ? `Draw ${whole(agentCount())} agents: this reads the whole state` : "");
  show("map-ask", isLarge);
  if (isLarge) show("map-panel", true);
  at.hasGap ||= !at.mayMeasure; // who does not see all is not told of what leaves its sight
  if (isLarge || !at.hasGap || performance.now() < at.mapAt) return;
  at.hasGap = false;
  const known = at.isMapped ? collections() : []; // first all of it: which have places?
  const { took, value } = await timed(() => readPlaces(known));
  at.mapAt = performance.now() + Math.max(known.length ? 2_000 : 20_000, SHARE * took);
  if (looking !== at) return;
  placeAll(value);
  at.isMapped = true;
}

async function readPlaces(known) {
  if (!known.length) return (await ask(worldPath("/state"))).value;
  const found = {};
  for (const name of known) {
    try {
      found[name] = (await ask(worldPath(`/state?path=${encodeURIComponent(name)}`))).value;
    } catch (error) {
      if (!(error instanceof Refusal && error.status === 404)) throw error; // nothing of it is left
      found[name] = {};
    }
  }
  return found;
}

async function timed(asking) {
  const start = performance.now();
  const value = await asking();
  return { took: performance.now() - start, value };
}

// what is shown

const agentCount = () => (looking.metrics ? total(looking.metrics, "placet_agents") : null);

function showWorld(world, { events, missed }) {
  show("content", true);
  showStanding(world);
  showFacts(world, agentCount());
  noteActs(events);
  const own = !looking.mayMeasure;
  if (own) {
    looking.history.add({ atMs: performance.now(), ...looking.own, refusals: new Map(looking.own.refusals) });
  } else if (looking.metrics && looking.history.last) showLoad(looking.metrics, looking.history);
  if (looking.history.last) showRates(looking.history, own);
  showLimits(own);
  tell(events, missed);
  placeChanged(events);
}

function showStanding(world) {
  if (!looking.isReady) return stand("failed", "not ready", looking.why);
  if (world.paused) return stand("slow", "paused", "The world is paused: batches wait, and none is decided until it is resumed.");
  return stand("ready", "ready", "");
}

function showLimits(own) {
  for (const element of document.querySelectorAll(".operators")) element.hidden = own;
  byId("tiles").classList.toggle("of-agent", own);
  show("limits", own);
  for (const id of ["tiles", "columns"]) show(id, !looking.isStranger);
  if (looking.isStranger) {
    write("limits", `No agent of this world is named ${tame(looking.submitter)} or belongs to that name, so nothing of the world is shown. `
      + "Requests that wait for a decision of this name appear here.");
  } else if (own) {
    write("limits", `This is what ${tame(looking.submitter)} may see: its own batches and refusals, and of the world what it is shown. `
      + "Load, times, and what others were refused are the operator’s.");
  }
}

function noteActs(events) {
  const isNew = looking.round > 1; // the first round reads what was before
  for (const event of events) {
    for (const { agent_id, kind } of event.intents ?? []) {
      looking.acts.delete(agent_id);
      looking.acts.set(agent_id, `${tame(kind, 40)}${event.type === "refused" ? ", refused" : ""}`);
      if (!isNew) continue;
      if (event.type === "batch") looking.own.admitted += 1;
      if (event.type === "refused") looking.own.refused += 1;
    }
    for (const [, stage, code] of isNew ? event.refusals ?? [] : []) {
      const key = `${stage}/${code}`;
      looking.own.refusals.set(key, (looking.own.refusals.get(key) ?? 0) + 1);
    }
  }
  for (const name of looking.acts.keys()) {
    if (looking.acts.size <= ACTS_MAX) break;
    looking.acts.delete(name);
  }
}

// when it does not go on

function goneAway(error) {
  const wait = RETRY_MS[Math.min(failures, RETRY_MS.length - 1)];
  failures += 1;
  looking.metrics = null; // rates over the break would be of two lives
  document.body.classList.add("away");
  if (error instanceof Refusal) {
    if (error.status === 404) looking.submitter = null; // the world is another, or has another name
    stand("failed", error.status === 503 ? "not ready" : "refused", `The server says: ${tame(error.message, 300)}`);
  } else if (error instanceof Away) {
    stand("failed", "away", `The server is away: ${error.message}. This page comes back by itself.`);
  } else {
    console.error(error);
    stand("failed", "unclear", "The server answered something that this page does not understand. It goes on asking.");
  }
  return wait;
}

/** Forget what the token let the page show. */
function close() {
  looking = fresh("");
  failures = 0;
  clearFeed();
  clearMap();
  clearFaults();
  clearApprovals();
  document.body.classList.remove("away");
  document.title = "Dashboard · placet";
}

startFeed();
startMap();
byId("worlds").addEventListener("change", ({ target }) => { beginAgain(target.value); wake(); });
byId("map-ask").addEventListener("click", () => { looking.isMapAsked = true; looking.hasGap = true; wake(); });
startSignIn({ open: wake, close });
startRounds(once);
