// JSON values as a tree that opens, and as one cell of a table. Every text enters as text.

import { made } from "./chart.js";
import { tame } from "./format.js";

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

/** Make the tree of an object's fields, in a list. */
export function tree(value, isOpen = true) {
  const list = made("ul", "tree");
  const entries = Object.entries(value ?? {});
  for (const [name, child] of entries.slice(0, CHILDREN_MAX)) list.append(branch(name, child, isOpen));
  if (entries.length > CHILDREN_MAX) list.append(made("li", "quiet", `and ${entries.length - CHILDREN_MAX} more`));
  if (!entries.length) list.append(made("li", "quiet", "nothing"));
  return list;
}

function branch(name, value, isOpen) {
  const item = made("li");
  const key = made("bdi", "key", tame(name, 80));
  if (value === null || typeof value !== "object" || JSON.isRawJSON?.(value) || isFlat(value)) {
    item.append(key, " ", made("bdi", "value", wholeText(value)));
    return item;
  }
  const details = made("details");
  const summary = made("summary");
  const count = Object.keys(value).length;
  summary.append(key, " ", made("span", "quiet", Array.isArray(value) ? `${count} items` : `${count} fields`));
  details.append(summary);
  // What is never opened is never made: a state may be large.
  const fill = () => { if (details.open && details.childElementCount === 1) details.append(tree(value, false)); };
  details.addEventListener("toggle", fill);
  details.open = isOpen && count <= 12;
  fill();
  item.append(details);
  return item;
}

const isFlat = (value) => Array.isArray(value) && value.length <= 8 && value.every((one) => one === null || typeof one !== "object");

function wholeText(value) {
  const text = typeof value === "string" ? value : JSON.stringify(value);
  return text.split("\n").map((line) => tame(line, TEXT_CHARS_MAX)).join("\n").slice(0, TEXT_CHARS_MAX);
}
