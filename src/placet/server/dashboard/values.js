// Values as a person reads them who decides about them: as JSON in which nothing hides.
// Different values have different texts; letters that only look alike have a remark.

import { made } from "./chart.js";
import { Numeral, writeExactly } from "./exact_json.js";

// A backslash and a quote; what has no shape of its own; spaces where nobody sees them; a mark without a letter before it.
const ESCAPED = new RegExp([
  '["\\\\]', "\\p{C}", "(?! )\\p{Z}",
  "[\\u034f\\u115f\\u1160\\u17b4\\u17b5\\u180b-\\u180f\\u2800\\u3164\\uffa0\\ufe00-\\ufe0d\\ufff0-\\ufffb\\u{e0000}-\\u{e0fff}]",
  "(?<!\\p{Extended_Pictographic})[\\ufe0e\\ufe0f]", "(?<![\\p{L}\\p{M}\\p{N}\\p{So}])\\p{M}+", "^ +", " +$", " +(?=\\n)",
].join("|"), "gu");
const UNDECIDED = "decided when applied"; // the name of an entity that is made then
const SHORT = new Map([['"', '\\"'], ["\\", "\\\\"], ["\n", "\\n"], ["\r", "\\r"], ["\t", "\\t"]]);
const ESCAPE = /\\u(d[89ab][0-9a-f]{2})\\u(d[c-f][0-9a-f]{2})|\\u([0-9a-f]{4})|\\([^u])/g;
const CONTROLS = new Map([["n", 0x0a], ["r", 0x0d], ["t", 0x09]]);

const NAMES = new Map([
  [0x00, "null character"], [0x09, "tab"], [0x0a, "line break"], [0x0d, "carriage return"], [0x1b, "escape"], [0x20, "space"],
  [0xa0, "no-break space"], [0xad, "soft hyphen"], [0x200b, "zero width space"], [0x200c, "zero width non-joiner"], [0x200d, "zero width joiner"],
  [0x200e, "left-to-right mark"], [0x200f, "right-to-left mark"], [0x2028, "line separator"], [0x2029, "paragraph separator"],
  [0x202a, "left-to-right embedding"], [0x202b, "right-to-left embedding"], [0x202c, "pop directional formatting"],
  [0x202d, "left-to-right override"], [0x202e, "right-to-left override"], [0x2060, "word joiner"], [0x2066, "left-to-right isolate"],
  [0x2067, "right-to-left isolate"], [0x2068, "first strong isolate"], [0x2069, "pop directional isolate"], [0xfeff, "zero width no-break space"],
]);
const CATEGORIES = [
  [/\p{Zs}/u, "a space"], [/\p{Cc}/u, "a control character"], [/\p{Cf}/u, "an invisible format character"], [/\p{Cs}/u, "half of a character"],
  [/\p{Co}/u, "a character of private use"], [/\p{Cn}/u, "no character of Unicode"], [/\p{M}/u, "a mark that joins the character before it"],
];

/** Write a text in quotes: JSON, in which an escape stands for each character that a reader would not see. */
export const quoted = (text) => `"${escapedText(text)}"`;

/** Write a value as such JSON; `indent` is for an editor. */
export const written = (value, indent = 0) => writeExactly(value, { quote: quoted, indent });

/** Write a text that is known to be one, such as a reason: as `quoted`, without the quotes. */
export const prose = (text) => escapedText(text).replace(/\\(.)/g, (pair, one) => (one === '"' ? one : pair));

/** Write the name of a field: as it is where nobody takes it for something else, else in quotes. */
export const keyText = (name) => (/^[\p{L}\p{N}_.:@-]+$/u.test(name) && escapedText(name) === name ? name : quoted(name));

/** Write the path of a changed field. */
export const pathText = (parts) => parts.map((one) => (one === UNDECIDED ? one : keyText(one))).join("/");

const escapedText = (text) => text.replace(ESCAPED, (found) => SHORT.get(found) ?? units(found));

const units = (text) => Array.from({ length: text.length }, (_, at) => `\\u${text.charCodeAt(at).toString(16).padStart(4, "0")}`).join("");

/** Append a written text to an element: an escape has the name of its character, and a line ends after \n. */
export function appendWritten(element, source) {
  let shown = 0;
  for (const found of source.matchAll(ESCAPE)) {
    const [all, high, low, unit, sign] = found;
    const point = sign === undefined ? (high ? `\\u${high}\\u${low}` : `\\u${unit}`) : CONTROLS.get(sign);
    if (point === undefined) continue;
    element.append(source.slice(shown, found.index), escape(all, typeof point === "number" ? point : JSON.parse(`"${point}"`).codePointAt(0)));
    if (sign === "n") element.append("\n");
    shown = found.index + all.length;
  }
  element.append(source.slice(shown));
  return element;
}

function escape(source, point) {
  const element = made("span", source === "\\n" ? "escape quiet" : "escape", source);
  const character = String.fromCodePoint(point);
  element.title = `${pointName(character)} ${NAMES.get(point) ?? CATEGORIES.find(([form]) => form.test(character))?.[1] ?? "an invisible character"}`;
  return element;
}

/** Make the element of a value that is no tree, and after it what a reader cannot see of it. */
export function valueElement(value, className = "value") {
  return [appendWritten(made("bdi", className), written(value)), ...remarkElements(value)];
}

/** Make the elements that say what a reader cannot see of the texts of a value. */
export function remarkElements(value) {
  return [...new Set(textsOf(value).flatMap(remarks))].flatMap((one) => [" ", made("span", "remark", `(${one})`)]);
}

function textsOf(value) {
  if (typeof value === "string") return [value];
  if (value === null || typeof value !== "object" || value instanceof Numeral) return [];
  return Array.isArray(value) ? value.flatMap(textsOf) : Object.entries(value).flatMap(textsOf);
}

// Alphabets with letters that look alike.
const ALPHABETS = ["Latin", "Cyrillic", "Greek", "Armenian", "Coptic", "Cherokee", "Lisu", "Deseret", "Osage"].map(
  (name) => [name, new RegExp(`\\p{Script=${name}}`, "gu")]);
const LIKE_LATIN = /^[аеорсухіјѕԁһӏԛԝҽьАВЕКМНОРСТУХІЈЅԌԚԜοανρυικηωχΑΒΕΖΗΙΚΜΝΟΡΤΥΧϲϳօսոհցԁզԼՕՍ]+$/u;
const LISTED_MAX = 4;

/** Say what a reader cannot see of a text: letters of several alphabets, or of another form than they look. */
export function remarks(text) {
  if (/^[\x20-\x7e]*$/.test(text)) return [];
  const letters = ALPHABETS.map(([name, form]) => [name, text.match(form) ?? []]).filter(([, found]) => found.length);
  const said = [];
  if (letters.length > 1) {
    const [, ...others] = [...letters].sort(([, one], [, other]) => other.length - one.length);
    said.push(`letters of ${letters.map(([name]) => name).join(" and ")}: ${pointed(others.flatMap(([, found]) => found))}`);
  } else if (letters.length === 1 && letters[0][0] !== "Latin" && LIKE_LATIN.test(letters[0][1].join(""))) {
    said.push(`${letters[0][0]} letters that look like Latin ones: ${pointed(letters[0][1])}`);
  }
  const forms = (text.match(/[\p{L}\p{Nd}]/gu) ?? []).filter((one) => /^[a-z\d]+$/i.test(one.normalize("NFKC")) && !/^[a-z\d]$/i.test(one));
  if (forms.length) said.push(`characters that are no plain letters or digits: ${pointed(forms)}`);
  if (text.normalize("NFC") !== text) said.push(`composed in another way than usual, not in Unicode NFC: ${pointed(decomposed(text))}`);
  return said;
}

/** Return the characters of a text that its usual form writes in another way. */
const decomposed = (text) => (text.match(/\P{M}\p{M}*/gu) ?? []).filter((one) => one.normalize("NFC") !== one);

function pointed(characters) {
  const different = [...new Set(characters)];
  const listed = different.slice(0, LISTED_MAX).map((one) => `${one} ${pointName(one)}`);
  return different.length > LISTED_MAX ? `${listed.join(", ")} and ${different.length - LISTED_MAX} more` : listed.join(", ");
}

const pointName = (text) => Array.from(text, (one) => `U+${one.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}`).join(" ");
