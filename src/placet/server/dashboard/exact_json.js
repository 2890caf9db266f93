// JSON without loss: every number as it is written, every key once. A decision is shown, edited and sent in this form.

const DEPTH_MAX = 256;
const NUMBER = /-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][-+]?\d+)?/y;
const WORDS = [["true", true], ["false", false], ["null", null]];

/** A number that JavaScript would write in another way: 9007199254740993, 1.0, -0, 1e400. */
export class Numeral {
  constructor(source) {
    this.source = source;
    Object.freeze(this);
  }

  valueOf() { return Number(this.source); }
  toString() { return this.source; }
  toJSON() { return { numeral: this.source }; }
}

/** Parse JSON text. Its objects have no prototype: their fields are those of the text alone.
 * A SyntaxError says what is wrong and in which line, also of a key that comes twice. */
export function parseExactly(text) {
  return new Parser(text).document();
}

/** Write a value as JSON text; `quote` writes a text, `indent` is the number of spaces of a level. */
export function writeExactly(value, { quote = JSON.stringify, indent = 0 } = {}, depth = 0) {
  if (typeof value === "string") return quote(value);
  if (value instanceof Numeral) return value.source;
  if (typeof value === "number") return Object.is(value, -0) ? "-0" : String(value);
  if (value === null || typeof value !== "object") return String(value);
  const isList = Array.isArray(value);
  const inner = (one) => writeExactly(one, { quote, indent }, depth + 1);
  const parts = isList ? value.map(inner) : Object.entries(value).map(([name, one]) => `${quote(name)}:${indent ? " " : ""}${inner(one)}`);
  const [open, close] = isList ? "[]" : "{}";
  if (!indent || !parts.length) return `${open}${parts.join(",")}${close}`;
  const line = (level) => `\n${" ".repeat(indent * level)}`;
  return `${open}${line(depth + 1)}${parts.join(`,${line(depth + 1)}`)}${line(depth)}${close}`;
}

class Parser {
  constructor(text) {
    this.text = text;
    this.at = 0;
  }

  document() {
    const value = this.value(0);
    this.space();
    if (this.at < this.text.length) this.fail(`the JSON ends before ${this.here()}`);
    return value;
  }

  value(depth) {
    if (depth > DEPTH_MAX) this.fail(`values are nested more than ${DEPTH_MAX} deep`);
    this.space();
    const first = this.text[this.at];
    if (first === "{") return this.object(depth);
    if (first === "[") return this.list(depth);
    if (first === '"') return this.string();
    for (const [word, value] of WORDS) {
      if (this.text.startsWith(word, this.at)) {
        this.at += word.length;
        return value;
      }
    }
    return this.number();
  }

  object(depth) {
    const fields = Object.create(null);
    this.at += 1;
    if (this.skips("}")) return fields;
    do {
      this.space();
      if (this.text[this.at] !== '"') this.fail(`a key in double quotes is expected, not ${this.here()}`);
      const start = this.at;
      const name = this.string();
      if (Object.hasOwn(fields, name)) {
        this.at = start;
        this.fail(`the key ${JSON.stringify(name)} comes twice in one object`);
      }
      if (!this.skips(":")) this.fail(`: is expected after a key, not ${this.here()}`);
      fields[name] = this.value(depth + 1);
    } while (this.skips(","));
    if (!this.skips("}")) this.fail(`, or } is expected after a value, not ${this.here()}`);
    return fields;
  }

  list(depth) {
    const items = [];
    this.at += 1;
    if (this.skips("]")) return items;
    do items.push(this.value(depth + 1)); while (this.skips(","));
    if (!this.skips("]")) this.fail(`, or ] is expected after a value, not ${this.here()}`);
    return items;
  }

  string() {
    const start = this.at;
    const end = /["\\]/g;
    end.lastIndex = start + 1;
    for (let found = end.exec(this.text); found; found = end.exec(this.text)) {
      if (found[0] === "\\") {
        end.lastIndex += 1;
        continue;
      }
      const source = this.text.slice(start, end.lastIndex);
      try {
        const value = JSON.parse(source);
        this.at = end.lastIndex;
        return value;
      } catch {
        this.fail("a text has a line break, a control character or an escape that JSON does not have");
      }
    }
    return this.fail("a text has no closing quote");
  }

  number() {
    NUMBER.lastIndex = this.at;
    const source = NUMBER.exec(this.text)?.[0];
    if (source === undefined) this.fail(`a value is expected, not ${this.here()}`);
    this.at += source.length;
    const value = Number(source);
    return writeExactly(value) === source ? value : new Numeral(source);
  }

  skips(sign) {
    this.space();
    if (this.text[this.at] !== sign) return false;
    this.at += 1;
    return true;
  }

  space() {
    while (" \t\n\r".includes(this.text[this.at] ?? "x")) this.at += 1;
  }

  /** Name what stands at the place, for a message. */
  here() {
    const word = /[\w.+-]+|[^]/uy;
    word.lastIndex = this.at;
    const found = word.exec(this.text)?.[0];
    return found === undefined ? "the end" : `“${found.slice(0, 40)}”`;
  }

  fail(why) {
    throw new SyntaxError(`line ${this.text.slice(0, this.at).split("\n").length}: ${why}`);
  }
}
