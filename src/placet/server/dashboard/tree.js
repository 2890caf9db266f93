// JSON values as a tree that opens, and as one cell of a table. Every text enters as text.

import { made } from "./chart.js";
import { safe, tame } from "./format.js";

const CHILDREN_MAX = 200;
const TEXT_CHARS_MAX = 20_000;

/** Round numbers for people, and show the rest in one tame line. */
export function cellText(value, charsMax = 160) {
  if (value === null || value === undefined) return "–";
  if (typeof value === "number") return Number.isInteger(value) ? String(value) : String(Number(value.toPrecision(5)));
  if (typeof value === "string") return tame(spaced(readableNumbers(value)), charsMax);
  return tame(spaced(readableNumbers(JSON.stringify(value))), charsMax);
}

// A list of numbers is a line of its own; it may break between them.
const spaced = (text) => (/^\[[-\d.,e]+\]$/.test(text) ? text.slice(1, -1).replaceAll(",", ", ") : text);

// A position to 15 places is no cell for people; the tree has all of them.
const readableNumbers = (text) => text.replace(/-?\d+\.\d{4,}(e-?\d+)?/g, (number) => String(Number(Number(number).toFixed(3))));

/** Make the tree of an object's fields, in a list.
 * With a `reading` all of it is shown or waits to be opened; `notes` are words before the values of some fields. */
export function tree(value, isOpen = true, reading = null, notes = {}) {
  const list = made("ul", "tree");
  const entries = Object.entries(value ?? {});
  const make = ([name, child]) => branch(name, child, isOpen, reading, notes[name]);
  if (reading) list.append(...reading.items(entries, make, "li", CHILDREN_MAX));
  else {
    for (const entry of entries.slice(0, CHILDREN_MAX)) list.append(make(entry));
    if (entries.length > CHILDREN_MAX) list.append(made("li", "quiet", `and ${entries.length - CHILDREN_MAX} more`));
  }
  if (!entries.length) list.append(made("li", "quiet", "nothing"));
  return list;
}

function branch(name, value, isOpen, reading, note) {
  const item = made("li");
  const key = reading ? reading.text("bdi", "key", name) : made("bdi", "key", tame(name, 80));
  if (value === null || typeof value !== "object" || JSON.isRawJSON?.(value) || isFlat(value)) {
    const shown = value === "" ? made("span", "value quiet", "(empty)") : reading ? reading.text("bdi", "value", value) : made("bdi", "value", wholeText(value));
    item.append(key, " ", ...(note ? [made("span", "quiet", note), " "] : []), shown);
    return item;
  }
  const details = made("details");
  const summary = made("summary");
  const count = Object.keys(value).length;
  summary.append(key, " ", ...(note ? [made("span", "quiet", note), " "] : []), made("span", "quiet", Array.isArray(value) ? `${count} items` : `${count} fields`));
  details.append(summary);
  // What is never opened is never made: a state may be large.
  const fill = () => { if (details.open && details.childElementCount === 1) details.append(tree(value, reading !== null, reading)); };
  details.addEventListener("toggle", fill);
  details.open = isOpen && count <= 12;
  fill();
  if (reading && !details.open) reading.wait(details, fill);
  item.append(details);
  return item;
}

const isFlat = (value) => Array.isArray(value) && value.length <= 8 && value.every((one) => one === null || typeof one !== "object");

function wholeText(value) {
  const text = typeof value === "string" ? value : JSON.stringify(value);
  return safe(text.length > TEXT_CHARS_MAX ? `${text.slice(0, TEXT_CHARS_MAX)}… and ${text.length - TEXT_CHARS_MAX} more characters` : text);
}
