// The calls whose outcome is unknown: a person finds out what happened, and says it here.

import { ask } from "./api.js";
import { byId, made, show } from "./chart.js";
import { parseExactly } from "./exact_json.js";
import { safe, tame } from "./format.js";
import { Reading } from "./reading.js";
import { tree } from "./tree.js";

const REASON_CHARS_MAX = 2_000;
const SETTLE_MS = 120_000;
const OUTCOMES = [["done", "It was done"], ["failed", "It was not done"]];

let cards = new Map();

/** Read the effects in doubt, and show those that the token may see. Give how many the reader may settle. */
export async function readDoubts(worldPath) {
  const { doubts } = await ask(worldPath("/approvals/doubts"), { parse: parseExactly });
  const shown = new Map();
  for (const doubt of doubts) {
    const before = cards.get(doubt.effect);
    const text = JSON.stringify(doubt);
    // A card whose reason is being written is not made anew.
    shown.set(doubt.effect, before?.text === text ? before : { text, element: cardOf(doubt, worldPath) });
  }
  cards = shown;
  const list = byId("doubts-body");
  const wanted = [...shown.values()].map(({ element }) => element);
  for (const one of [...list.children]) if (!wanted.includes(one)) one.remove();
  wanted.forEach((one, index) => { if (list.children[index] !== one) list.insertBefore(one, list.children[index] ?? null); });
  show("doubts", shown.size > 0);
  return doubts.filter(({ decides }) => decides).length;
}

/** Show none, as for another world. */
export function clearDoubts() {
  cards = new Map();
  byId("doubts-body").replaceChildren();
  show("doubts", false);
}

function cardOf(doubt, worldPath) {
  const { effect, kind, call, agent, payload, why, decides } = doubt;
  const card = made("article", "plan open");
  card.dataset.effect = effect;
  const reading = new Reading(() => {});
  const facts = made("p", "small facts");
  for (const [key, text] of [["by", safe(agent)], ["key", safe(call || effect)]]) {
    const part = made("span");
    part.append(made("span", "key", `${key} `), made("bdi", "", text));
    facts.append(part);
  }
  card.append(reading.text("h3", "", kind), facts, tree(payload, true, reading));
  card.append(made("h4", "", "Why its outcome is unknown"), reading.text("p", "", why || "It was started, and no outcome is recorded."));
  if (decides) card.append(formOf(doubt, worldPath));
  else card.append(made("p", "small quiet", "This token speaks for the agent, so another person settles it."));
  return card;
}

function formOf({ effect, kind }, worldPath) {
  const form = made("div", "decide");
  const label = made("label", "small", "How do you know? ");
  const reason = made("input");
  reason.maxLength = REASON_CHARS_MAX;
  reason.autocomplete = "off";
  label.append(reason);
  const row = made("div", "actions");
  const error = made("p", "form-error");
  error.setAttribute("role", "alert");
  const buttons = OUTCOMES.map(([outcome, text]) => {
    const button = made("button", "", text);
    button.type = "button";
    button.setAttribute("aria-label", `${text}: ${tame(kind, 300)}`);
    button.addEventListener("click", () => settle(outcome));
    return button;
  });
  row.append(...buttons);
  form.append(label, row, error);

  async function settle(outcome) {
    error.textContent = "";
    for (const one of [reason, ...buttons]) one.disabled = true;
    try {
      await ask(worldPath("/approvals/doubts"), { body: { effect, outcome, reason: reason.value }, patienceMs: SETTLE_MS });
      await readDoubts(worldPath).catch(() => {}); // the next round reads them
    } catch (fault) {
      error.textContent = tame(fault.message, 500);
      for (const one of [reason, ...buttons]) one.disabled = false;
    }
  }
  return form;
}
