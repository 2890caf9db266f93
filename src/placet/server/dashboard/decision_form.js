// The parts of a card by which a person decides: facts, a reason, buttons, and what holds the buttons back.

import { made } from "./chart.js";
import { whole } from "./format.js";

const REASON_CHARS_MAX = 2_000;

/** Make a fact with its name before it. */
export function pair(key, shown, className = "") {
  const part = made("span", className);
  part.append(made("span", "key", `${key} `), shown);
  return part;
}

/** Make the form of a decision: {form, reason, row, unread, error}; `asked` is said before the field of the reason. */
export function decisionForm(id, asked) {
  const form = made("div", "decide");
  const label = made("label", "small", asked);
  const reason = made("input");
  reason.maxLength = REASON_CHARS_MAX;
  reason.autocomplete = "off";
  label.append(reason);
  const unread = made("p", "small unread");
  unread.id = `unread-${id}`;
  unread.hidden = true;
  const row = made("div", "actions");
  const error = made("p", "form-error");
  error.setAttribute("role", "alert");
  form.append(label, unread, row, error);
  return { form, reason, row, unread, error };
}

/** Make a button; `about` is the part of its name that the reader sees elsewhere on the card. */
export function button(text, className, act, about = "") {
  const element = made("button", className, text);
  element.type = "button";
  if (about) element.setAttribute("aria-label", `${text}: ${about}`);
  element.addEventListener("click", act);
  return element;
}

/** Say in an element how many parts of `readings` are not shown, with a control that opens them to `act`; return that number. */
export function sayUnread(element, readings, act) {
  const unread = readings.reduce((sum, one) => sum + one.unread, 0);
  element.hidden = unread === 0;
  if (unread) {
    const all = button("show everything", "rest", () => { for (const one of readings) one.openAll(); });
    element.replaceChildren(`${unread === 1 ? "A part is" : `${whole(unread)} parts are`} not shown. Open ${unread === 1 ? "it" : "them"} to ${act}, or `, all);
  }
  return unread;
}
