// JSON values as a tree that opens, and as one cell of a table. Every text enters as text.

import { made } from "./chart.js";
import { Numeral } from "./exact_json.js";
import { tame } from "./format.js";
import { appendWritten, keyText, quoted, remarkElements, valueElement } from "./values.js";

const CHILDREN_MAX = 200;
const TEXT_CHARS_MAX = 20_000;
const KEY_CHARS_MAX = 200;
const ITEM_CHARS_MAX = 200;

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
 * With a `reading` all of it is shown or waits to be opened; `notes`, by field, are words before the values. */
export function tree(value, isOpen = true, reading = null, notes = new Map()) {
  const list = made("ul", "tree");
  const entries = Object.entries(value ?? {});
  const make = ([name, child]) => branch(name, child, isOpen, reading, notes.get(name));
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
  const key = reading ? reading.filled(made("bdi", "key"), name, keyText) : appendWritten(made("bdi", "key"), keyText(name.slice(0, KEY_CHARS_MAX)));
  if (isOneLine(value)) {
    item.append(key, " ", ...(note ? [made("span", "quiet", note), " "] : []), ...(reading ? [reading.value(value)] : plain(value)));
    return item;
  }
  const details = made("details");
  const summary = made("summary");
  const count = Object.keys(value).length;
  summary.append(key, " ", ...(note ? [made("span", "quiet", note), " "] : []), made("span", "quiet", `${count} ${Array.isArray(value) ? "item" : "field"}${count === 1 ? "" : "s"}`));
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

const isScalar = (value) => value === null || typeof value !== "object" || value instanceof Numeral;

/** Whether a value is shown in one piece: a scalar, nothing, or a few short ones. */
function isOneLine(value) {
  if (isScalar(value) || !Object.keys(value).length) return true;
  return Array.isArray(value) && value.length <= 8 && value.every((one) => isScalar(one) && !(one?.length > ITEM_CHARS_MAX));
}

function plain(value) {
  if (typeof value !== "string" || value.length <= TEXT_CHARS_MAX) return valueElement(value);
  const shown = value.slice(0, TEXT_CHARS_MAX);
  return [appendWritten(made("bdi", "value"), quoted(shown)), ...remarkElements(shown), " ",
    made("span", "quiet", `and ${value.length - TEXT_CHARS_MAX} more characters`)];
}
