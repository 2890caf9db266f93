// The latest of what happened: a list that grows at its top and is cut at its end.

import { byId, made, show, write } from "./chart.js";
import { lineParts } from "./feed_line.js";
import { said, whole } from "./format.js";

const LINES_MAX = 120;

let isHeld = false;
const kept = [];

/** Listen to the two ways of the reader to calm it. */
export function startFeed() {
  byId("hold").addEventListener("click", () => {
    isHeld = !isHeld;
    byId("hold").setAttribute("aria-pressed", String(isHeld));
    if (!isHeld) add(kept.splice(0));
  });
  byId("only-refused").addEventListener("change", ({ target }) => {
    byId("feed").classList.toggle("only", target.checked);
    sayEmpty();
  });
}

export function clearFeed() {
  kept.length = 0;
  byId("feed").replaceChildren();
  sayEmpty();
}

/** Tell events, oldest first; `missed` records came before them and were not asked for. */
export function tell(events, missed) {
  const lines = events.map(said).filter((line) => line !== null);
  const elements = lines.map(element);
  if (missed > 0 && lines.length) elements.unshift(gap(missed));
  if (isHeld) {
    kept.push(...elements);
    kept.splice(0, kept.length - LINES_MAX);
  } else add(elements);
}

function add(elements) {
  if (!elements.length) return;
  const list = byId("feed");
  // Who reads further down is not pushed on.
  const from = list.scrollTop > 4 ? list.scrollHeight : 0;
  list.prepend(...elements.reverse());
  if (from) list.scrollTop += list.scrollHeight - from;
  while (list.childElementCount > LINES_MAX) list.lastElementChild.remove();
  sayEmpty();
}

/** Say so where no line is shown. */
function sayEmpty() {
  const list = byId("feed");
  const isOnly = list.classList.contains("only");
  write("feed-empty", isOnly && list.firstChild ? "Nothing of the latest was refused." : "Nothing yet.");
  show("feed-empty", !list.querySelector(isOnly ? ".refused" : "li"));
}

function element(line) {
  const item = made("li", line.kind);
  item.append(...lineParts(line));
  return item;
}

function gap(missed) {
  return made("li", "gap", `${whole(missed)} ${missed === 1 ? "record" : "records"} before this, not shown`);
}
