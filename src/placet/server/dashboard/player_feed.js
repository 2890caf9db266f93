// What happened up to a moment, newest first; a line is a button that looks closer at its record.

import { byId, made, show } from "./chart.js";
import { lineParts } from "./feed_line.js";
import { said } from "./format.js";

const LINES_MAX = 120;

/** Show the latest events, oldest first as they come; `choose` is called with the event of a line. */
export function showFeed(events, choose) {
  byId("feed").replaceChildren(...lines(events, choose));
  show("feed-empty", byId("feed").childElementCount === 0);
}

/** Add the events of a step on top. */
export function addToFeed(events, choose) {
  const list = byId("feed");
  list.prepend(...lines(events, choose));
  while (list.childElementCount > LINES_MAX) list.lastElementChild.remove();
  show("feed-empty", list.childElementCount === 0);
}

const lines = (events, choose) => events.map((event) => line(said(event), () => choose(event))).filter((one) => one !== null).reverse();

/** Make the line of an event in words, a button; null for one that is not told. */
export function line(told, choose) {
  if (told === null) return null;
  const item = made("li", told.kind);
  const button = made("button", "entry");
  button.type = "button";
  button.append(...lineParts(told));
  button.addEventListener("click", choose);
  item.append(button);
  return item;
}
