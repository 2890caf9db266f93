// A field of texts, booleans or categories along the time line: bands in the colors of its values.

import { made } from "./chart.js";
import { tame, whole } from "./format.js";
import { kindOfValue } from "./player_colors.js";

const OTHER = -1;
const KINDS = 8;
const NULL_PART = 0.3; // of the height: a band of null is no band of a value
const LEAST_PX = 2;
const TOLD_MAX = 12; // stretches that are told in words

/** Return the style's color of each category: that of the map where it colors by the field, else one that is free. */
function kindsOf({ collection, name, categories }) {
  const known = categories.map(({ value }) => (value === null ? "--quiet" : kindOfValue(collection, name, value) ?? plainKind(value)));
  const free = Array.from({ length: KINDS }, (_, at) => `--kind-${at + 1}`).filter((kind) => !known.includes(kind));
  return known.map((kind) => kind ?? free.shift() ?? "--quiet");
}

/** Return the color of a small number, which the map gives it too; null of all else. */
const plainKind = (value) => (Number.isInteger(value) && value >= 0 && value < KINDS ? `--kind-${value + 1}` : null);

const textOf = (categories, value) => (value === null ? "missing" : value === OTHER ? "another value" : tame(categories[value].name, 60));

/** Return the stretches of equal values, [{value, from, to}]; a value holds until the next moment. */
function stretches({ seqs, values }) {
  const found = [];
  for (const [at, value] of values.entries()) {
    const last = found.at(-1);
    if (last?.value === value) last.to = seqs[at + 1] ?? seqs[at];
    else found.push({ value, from: seqs[at], to: seqs[at + 1] ?? seqs[at] });
  }
  return found;
}

/** Write the name and the value at a seq, with a legend; what reads a page aloud is told the stretches. */
export function saysOfBands({ series, says, canvas, element }, seq) {
  const { name, seqs, values, categories } = series;
  const kinds = kindsOf(series);
  const at = seq === null ? -1 : seqs.findLastIndex((one) => one <= seq);
  const now = at < 0 ? "–" : textOf(categories, values[at]);
  const told = stretches(series).map(({ value, from }) => `${textOf(categories, value)} from seq ${whole(from)}`);
  const more = told.length > TOLD_MAX ? `, and ${whole(told.length - TOLD_MAX)} more` : "";
  const label = `${tame(name, 60)}: ${now} at this moment; ${told.slice(0, TOLD_MAX).join(", ")}${more}`;
  if (canvas.ariaLabel === label && says.dataset.kinds === String(kinds)) return;
  canvas.ariaLabel = label;
  element.title = label;
  says.dataset.kinds = String(kinds);
  const keys = categories.map(({ name: text, value }, number) => keyOf(tame(text, 40), kinds[number], value === null ? "is-null" : ""));
  if (values.includes(OTHER)) keys.push(keyOf("another value", "--quiet"));
  if (values.includes(null)) keys.push(keyOf("missing", "--ground", "is-missing"));
  says.replaceChildren(made("bdi", "", tame(name, 60)), made("b", "", now), ...keys);
}

function keyOf(text, kind, className = "") {
  const key = made("bdi", `dot ${className}`, text);
  key.style.setProperty("--dot-1", `var(${kind})`);
  return key;
}

/** Draw a band for each stretch: null is a low one, and there is none where a value is missing. */
export function drawBands(series, { context, width, height, color }, partOf) {
  const kinds = kindsOf(series);
  const end = series.seqs.at(-1);
  for (const { value, from, to } of stretches(series)) {
    if (value === null) continue;
    const [left, right] = [Math.min(width - LEAST_PX, partOf(from) * width), to === end ? width : partOf(to) * width];
    const isNull = value !== OTHER && series.categories[value].value === null;
    const high = (height - 6) * (isNull ? NULL_PART : 1);
    context.fillStyle = color(value === OTHER ? "--quiet" : kinds[value]);
    context.fillRect(left, height - 3 - high, Math.max(LEAST_PX, right - left), high);
  }
}
