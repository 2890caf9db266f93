// The calls whose outcome is unknown: a person finds out what happened, and says it here.

import { ask } from "./api.js";
import { byId, made, place, show } from "./chart.js";
import { button, decisionForm, pair, sayUnread } from "./decision_form.js";
import { parseExactly } from "./exact_json.js";
import { tame } from "./format.js";
import { Reading } from "./reading.js";
import { tree } from "./tree.js";

const SETTLE_MS = 120_000;
const OUTCOMES = [["done", "It was done"], ["failed", "It was not done"]];

let cards = new Map();
let turn = 0;

/** Read the effects in doubt, and show those that the token may see. Give how many the reader may settle. */
export async function readDoubts(worldPath) {
  const asked = ++turn;
  const { doubts } = await ask(worldPath("/approvals/doubts"), { parse: parseExactly });
  if (asked === turn) showAll(doubts, worldPath); // else the answer is of another world or token, or older than what is shown
  return [...cards.values()].filter(({ decides }) => decides).length;
}

function showAll(doubts, worldPath) {
  const shown = new Map();
  for (const doubt of doubts) {
    const before = cards.get(doubt.effect);
    const text = JSON.stringify(doubt);
    // A card whose reason is being written is not made anew.
    shown.set(doubt.effect, before?.text === text ? before : { text, decides: doubt.decides, element: cardOf(doubt, worldPath) });
  }
  cards = shown;
  place(byId("doubts-body"), [...shown.values()].map(({ element }) => element));
  show("doubts", shown.size > 0);
}

/** Show none, as for another world. */
export function clearDoubts() {
  turn += 1;
  cards = new Map();
  byId("doubts-body").replaceChildren();
  show("doubts", false);
}

function cardOf(doubt, worldPath) {
  const { effect, kind, call, agent, payload, why, decides } = doubt;
  const card = made("article", "plan open");
  card.dataset.effect = effect;
  let gate = () => {};
  const reading = new Reading(() => gate());
  const facts = made("p", "small facts");
  facts.append(pair("by", reading.text("bdi", "", agent)), pair("key", reading.text("bdi", "", call || effect)));
  card.append(reading.text("h3", "", kind), facts, tree(payload, true, reading));
  card.append(made("h4", "", "Why its outcome is unknown"), reading.text("p", "", why || "It was started, and no outcome is recorded."));
  if (decides) {
    const { form, hold } = formOf(doubt, reading, worldPath);
    card.append(form);
    gate = hold;
    gate();
  } else card.append(made("p", "small quiet", "This token speaks for the agent, so another person settles it."));
  return card;
}

/** Make {form, hold}; `hold` keeps its buttons back while a part of what is settled is not shown. */
function formOf({ effect, kind }, reading, worldPath) {
  const { form, reason, row, unread, error } = decisionForm(effect, "How do you know? ");
  const buttons = OUTCOMES.map(([outcome, text]) => button(text, "", () => settle(outcome), tame(kind, 300)));
  for (const one of buttons) one.setAttribute("aria-describedby", unread.id);
  row.append(...buttons);

  function hold() {
    const isHeld = sayUnread(unread, [reading], "settle") > 0;
    for (const one of buttons) one.disabled = isHeld;
  }

  async function settle(outcome) {
    error.textContent = "";
    for (const one of [reason, ...buttons]) one.disabled = true;
    try {
      await ask(worldPath("/approvals/doubts"), { body: { effect, outcome, reason: reason.value }, patienceMs: SETTLE_MS });
      await readDoubts(worldPath).catch(() => {}); // the next round reads them
    } catch (fault) {
      error.textContent = tame(fault.message, 500);
      reason.disabled = false;
      hold();
    }
  }
  return { form, hold };
}
