// JSON Schemas for people: a tree of fields that opens, and an example of a value. Every text enters as text.

import { made } from "./chart.js";
import { safe, tame, whole } from "./format.js";

const RANGES = [
  ["minimum", "maximum", ""], ["minLength", "maxLength", " characters"], ["minItems", "maxItems", " items"], ["minProperties", "maxProperties", " fields"],
];
const BOUNDS = [["exclusiveMinimum", "more than"], ["exclusiveMaximum", "less than"], ["multipleOf", "a multiple of"]];
const VALUES_SHOWN = 40;
const SAMPLE_DEPTH = 6;
const isSchema = (value) => value !== null && typeof value === "object";

/** The schemas of a document, which refer to each other by name. */
export class Schemas {
  constructor(document) {
    this.byName = new Map(Object.entries(document.components?.schemas ?? {}));
  }

  /** Return a schema without a reference, and the name to which it referred. */
  resolve(schema) {
    let [found, name] = [schema, ""];
    for (let step = 0; isSchema(found) && typeof found.$ref === "string" && step < 16; step += 1) {
      const { $ref: reference, ...others } = found;
      name = reference.slice(reference.lastIndexOf("/") + 1);
      found = { ...(this.byName.get(name) ?? {}), ...others };
    }
    return { schema: isSchema(found) ? found : {}, name };
  }

  /** Make the tree of a schema. */
  view(schema) {
    const list = made("ul", "schema");
    list.append(this.row(null, schema, null, true));
    return list;
  }

  row(key, given, isRequired, isOpen = false) {
    const { schema } = this.resolve(given);
    const item = made("li");
    const children = this.children(schema);
    const line = children.length ? made("summary") : item;
    if (key !== null) line.append(made("bdi", "key", tame(key, 120)), " ");
    line.append(made("bdi", "type", this.type(given)));
    if (isRequired) line.append(" ", made("span", "chip required", "required"));
    const limits = this.limits(schema);
    if (limits.length) line.append(" ", made("bdi", "limits", limits.join(" · ")));
    if (typeof schema.description === "string") line.append(" ", made("bdi", "says", safe(schema.description)));
    if (!children.length) return item;
    const details = made("details");
    details.append(line);
    // What is never opened is never made: a schema may refer to itself.
    const fill = () => {
      if (!details.open || details.childElementCount > 1) return;
      const list = made("ul");
      list.append(...children.map((child) => this.row(...child)));
      details.append(list);
    };
    details.addEventListener("toggle", fill);
    details.open = isOpen;
    fill();
    item.append(details);
    return item;
  }

  /** Return the parts of a schema that have schemas of their own: [key, schema, isRequired]. */
  children(schema) {
    const required = new Set(schema.required ?? []);
    const found = Object.entries(schema.properties ?? {}).map(([key, value]) => [key, value, required.has(key)]);
    for (const [pattern, value] of Object.entries(schema.patternProperties ?? {})) found.push([`fields like ${pattern}`, value, false]);
    if (isSchema(schema.additionalProperties) && Object.keys(schema.additionalProperties).length) found.push(["every other field", schema.additionalProperties, false]);
    for (const [number, value] of (schema.prefixItems ?? []).entries()) found.push([`item ${number + 1}`, value, false]);
    const options = optionsOf(schema);
    if (options.length === 1) found.push(...this.children(this.resolve(options[0]).schema));
    else for (const [number, value] of options.entries()) found.push([`form ${number + 1}`, value, false]);
    for (const value of schema.allOf ?? []) found.push(...this.children(this.resolve(value).schema));
    if (isSchema(schema.items)) {
      const { schema: of } = this.resolve(schema.items);
      if (this.children(of).length) found.push(...this.children(of));
      else if (this.limits(of).length || of.description) found.push(["each item", schema.items, false]);
    }
    return found;
  }

  /** Say the type of a schema in a few words. */
  type(given) {
    const { schema, name } = this.resolve(given);
    const of = this.plainType(schema);
    return tame(name ? `${name}${of === "object" ? "" : `: ${of}`}` : of, 200);
  }

  plainType(schema) {
    if ("const" in schema) return JSON.stringify(schema.const);
    if (schema.enum) return "one of";
    const options = optionsOf(schema);
    if (options.length) {
      const words = options.length === 1 ? this.type(options[0]) : options.length <= 3 ? options.map((one) => this.type(one)).join(" or ") : `one of ${options.length} forms`;
      return hasNull(schema) ? `${words} or null` : words;
    }
    const types = [schema.type ?? []].flat();
    if (!types.length) return schema.properties ? "object" : schema.allOf ? schema.allOf.map((one) => this.type(one)).join(" and ") : "any JSON";
    return types.map((one) => (one === "array" ? this.arrayType(schema) : one)).join(" or ");
  }

  arrayType(schema) {
    if (schema.prefixItems) return `array of ${schema.prefixItems.map((one) => this.type(one)).join(", ")}`;
    return isSchema(schema.items) && Object.keys(schema.items).length ? `array of ${this.type(schema.items)}` : "array";
  }

  /** Say the values that a schema admits, beside its type. */
  limits(schema) {
    const values = schema.enum?.map((one) => JSON.stringify(one)) ?? [];
    const said = values.length ? [values.slice(0, VALUES_SHOWN).join(", ") + (values.length > VALUES_SHOWN ? ` and ${whole(values.length - VALUES_SHOWN)} more` : "")] : [];
    for (const [least, most, unit] of RANGES) said.push(...rangeOf(schema[least], schema[most], unit));
    for (const [key, words] of BOUNDS) if (typeof schema[key] === "number") said.push(`${words} ${numberText(schema[key])}`);
    if (schema.uniqueItems) said.push("each item once");
    if (schema.pattern) said.push(`matches ${schema.pattern}`);
    if (schema.format) said.push(`format ${schema.format}`);
    if (schema.default !== undefined) said.push(`by default ${JSON.stringify(schema.default)}`);
    if (schema.properties && schema.additionalProperties !== false) said.push("may have other fields");
    const options = optionsOf(schema);
    if (options.length === 1) said.push(...this.limits(this.resolve(options[0]).schema));
    return said.map((one) => tame(one, 600));
  }

  /** Return values that have the form of a schema, by name: one for each kind of what it is made of. */
  samples(given) {
    const { schema } = this.resolve(given);
    const kinds = Object.entries(schema.discriminator?.mapping ?? {});
    if (kinds.length) return new Map(kinds.map(([name, reference]) => [name, this.sample({ $ref: reference })]));
    const [form] = optionsOf(schema);
    if (form) return this.samples(form);
    if (!isSchema(schema.items) || !this.resolve(schema.items).schema.discriminator) return new Map([["made from the schema", this.sample(given)]]);
    return new Map([...this.samples(schema.items)].map(([name, value]) => [name, [value]]));
  }

  /** Make a value that has the form of a schema, with its required fields and those that have an example. */
  sample(given, depth = 0) {
    const { schema } = this.resolve(given);
    for (const value of [schema.examples?.[0], schema.example, schema.default, schema.const, schema.enum?.[0]]) if (value !== undefined) return value;
    const parts = [...optionsOf(schema).slice(0, 1), ...(schema.allOf ?? [])];
    if (depth > SAMPLE_DEPTH) return null;
    const type = [schema.type ?? (schema.properties ? "object" : "")].flat()[0];
    if (type === "object") {
      const required = new Set(schema.required);
      const shown = Object.entries(schema.properties ?? {}).filter(([key, value]) => required.has(key) || value.examples);
      return Object.fromEntries(shown.map(([key, value]) => [key, this.sample(value, depth + 1)]));
    }
    if (parts.length) return parts.length === 1 ? this.sample(parts[0], depth + 1) : Object.assign({}, ...parts.map((one) => this.sample(one, depth + 1)));
    if (type === "array") return this.sampleItems(schema, depth);
    if (type === "string") return "text".padEnd(schema.minLength ?? 0, "x").slice(0, schema.maxLength);
    if (type === "integer" || type === "number") return schema.minimum ?? (schema.exclusiveMinimum === undefined ? Math.min(0, schema.maximum ?? 0) : schema.exclusiveMinimum + 1);
    return type === "boolean" ? false : type === "null" ? null : {};
  }

  sampleItems(schema, depth) {
    const first = (schema.prefixItems ?? []).map((one) => this.sample(one, depth + 1));
    while (first.length < Math.min(schema.minItems ?? 0, 8)) first.push(this.sample(schema.items ?? {}, depth + 1));
    return first;
  }
}

const allOptions = (schema) => [...(schema.oneOf ?? []), ...(schema.anyOf ?? [])];
const optionsOf = (schema) => allOptions(schema).filter((one) => one.type !== "null");
const hasNull = (schema) => allOptions(schema).some((one) => one.type === "null");

function rangeOf(least, most, unit) {
  if (least !== undefined && most !== undefined) return [`${numberText(least)}${least === most ? "" : ` to ${numberText(most)}`}${unit}`];
  if (least !== undefined) return [`at least ${numberText(least)}${unit}`];
  return most === undefined ? [] : [`at most ${numberText(most)}${unit}`];
}

/** Write a bound; a power of two beyond what a number of the script holds is written as one. */
function numberText(value) {
  const power = Math.log2(Math.abs(value));
  if (Math.abs(value) > Number.MAX_SAFE_INTEGER && Number.isInteger(power)) return `${value < 0 ? "-" : ""}2^${power}`;
  return Number.isInteger(value) ? whole(value) : String(value);
}
