// The requests that wait for a person: read in rounds, shown as cards, and followed to their outcome.

import { ask, Refusal } from "./api.js";
import { Card } from "./approval_card.js";
import { byId, place, show } from "./chart.js";
import { parseExactly, writeExactly } from "./exact_json.js";

const DECIDE_MS = 120_000; // an approved call is submitted before the answer comes
const FOLLOWED_MAX = 20;
const DECIDED_MAX = 50;
const PAGES_MAX = 64;
const KEY = "placet.approvals";

let cards = new Map();
let world = "";
let isReading = false;
let hasMore = false;

/** Read the open requests that the token may see, show them and what became of those shown before.
 * Give how many are shown, how many of them the reader may decide, and whether more wait; null if the world keeps none. */
export async function readApprovals(worldPath) {
  if (isReading) return counts();
  isReading = true;
  try {
    const at = worldPath();
    if (at !== world) clearApprovals();
    world = at;
    const { approvals, next } = await ask(worldPath("/approvals?state=open"), { parse: parseExactly });
    const followed = await readFollowed(worldPath, new Set(approvals.map(({ id }) => id)));
    if (world !== at) return counts();
    hasMore = next !== null;
    showAll(approvals, followed, worldPath);
  } catch (error) {
    if (!(error instanceof Refusal && [403, 404].includes(error.status))) throw error;
    return null;
  } finally {
    isReading = false;
  }
  return counts();
}

/** Give the cards of the latest requests that are not open, newest first, with the outcomes of their calls. */
export async function decidedCards(worldPath) {
  let found = [];
  let cursor = 0;
  for (let page = 0; cursor !== null && page < PAGES_MAX; page += 1) {
    const { approvals, next } = await ask(worldPath(`/approvals?cursor=${cursor}`), { parse: parseExactly });
    found = [...found, ...approvals.filter(({ state }) => state !== "open")].slice(-DECIDED_MAX);
    cursor = next;
  }
  const cards = [];
  for (const one of found.reverse()) { // one after the other: a token has few reads at a time
    const whole = one.state === "approved" ? await ask(worldPath(`/approvals/${encodeURIComponent(one.id)}`), { parse: parseExactly }) : one;
    cards.push(new Card(whole).element);
  }
  return cards;
}

/** Show none, as for another world. */
export function clearApprovals() {
  cards = new Map();
  world = "";
  show("approvals", isWhole());
  byId("approvals-body").replaceChildren();
}

const counts = () => ({ shown: cards.size, waiting: [...cards.values()].filter(({ approval }) => approval.decides).length, hasMore });

/** The ids of requests that were decided while this tab looked; kept for a reload of the page. */
function ended() {
  try {
    return JSON.parse(sessionStorage.getItem(KEY) ?? "{}")[world] ?? [];
  } catch {
    return []; // a page without a server has no storage
  }
}

function keepEnded(ids) {
  try {
    sessionStorage.setItem(KEY, JSON.stringify({ [world]: ids }));
  } catch {
    // the outcomes are shown until the page is closed
  }
}

/** Read what became of the requests that are open no longer; those that have ended are not asked for again. */
async function readFollowed(worldPath, open) {
  const ids = [...new Set([...cards.keys(), ...ended()])].filter((id) => !open.has(id));
  const found = [];
  for (const id of ids.slice(-FOLLOWED_MAX)) {
    const known = cards.get(id)?.approval;
    const isOver = known && known.state !== "open" && !known.calls.some(({ status }) => status === "running");
    try {
      const approval = isOver ? known : await ask(worldPath(`/approvals/${encodeURIComponent(id)}`), { parse: parseExactly });
      found.push(approval);
      const other = approval.amended_by;
      if (other && !ids.includes(other)) found.push(await ask(worldPath(`/approvals/${encodeURIComponent(other)}`), { parse: parseExactly }));
    } catch (error) {
      if (!(error instanceof Refusal && error.status === 404)) throw error; // the state has dropped it
    }
  }
  keepEnded(found.map(({ id }) => id));
  return found;
}

function showAll(open, followed, worldPath) {
  const found = new Map([...open, ...followed].map((one) => [one.id, one]));
  const shown = new Map();
  for (const id of inOrder(open, followed, found)) {
    const approval = found.get(id);
    const before = cards.get(approval.id);
    const text = comparable(approval);
    // A card that is being read, or whose reason is being written, is not made anew.
    const card = before?.text === text ? before : new Card(approval, (decision) => decide(approval.id, decision, worldPath), (amendment) => foresee(approval.id, amendment, worldPath));
    card.text = text;
    card.tick(approval);
    shown.set(approval.id, card);
  }
  cards = shown;
  place(byId("approvals-body"), [...shown.values()].map(({ element }) => element));
  show("approvals", isWhole() || shown.size > 0);
}

/** Give the ids in the order of the page: a card stays where the reader saw it, also when it is decided. */
function inOrder(open, followed, found) {
  const order = [...cards.keys()].filter((id) => found.has(id));
  for (const { id, amends, amended_by: amendedBy } of [...open, ...[...followed].reverse()]) {
    if (order.includes(id)) continue;
    const at = order.includes(amends) ? order.indexOf(amends) + 1 : order.includes(amendedBy) ? order.indexOf(amendedBy) : order.length;
    order.splice(at, 0, id);
  }
  return order;
}

/** Whether the requests are a page of their own, which is shown without any too. */
const isWhole = () => byId("approvals").hasAttribute("data-whole");

// What only counts down is no change of the card.
const comparable = ({ left_s: _, age_s: _age, ...approval }) => JSON.stringify(approval);

/** Ask what an amendment would approve; give {shown}, or {problem}. */
async function foresee(id, amendment, worldPath) {
  try {
    const body = writeExactly({ ...amendment, dry_run: true });
    return { shown: await ask(worldPath(`/approvals/${encodeURIComponent(id)}`), { body, parse: parseExactly }) };
  } catch (error) {
    return { problem: { message: error.message, refusals: error.document?.refusals } };
  }
}

/** Send a decision; give null, or the problem that refused it. */
async function decide(id, decision, worldPath) {
  try {
    await ask(worldPath(`/approvals/${encodeURIComponent(id)}`), { body: writeExactly(decision), patienceMs: DECIDE_MS });
  } catch (error) {
    return { message: error.message, refusals: error.document?.refusals };
  }
  await readApprovals(worldPath).catch(() => {}); // the next round reads it
  cards.get(id)?.confirm();
  return null;
}
