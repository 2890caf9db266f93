// One operation of the API: its description, a form of its parameters and its body, and what it answers.

import { made } from "./chart.js";
import { safe, tame } from "./format.js";
import { curlOf, indented, requestOf, tryRequest } from "./docs_try.js";

let count = 0;

/** Return the operations of a document: [{id, method, path, tag, summary, ...}], each as OpenAPI describes it. */
export function operationsOf(document) {
  return Object.entries(document.paths).flatMap(([path, item]) => Object.entries(item).map(([method, described]) => ({
    ...described,
    id: described.operationId,
    method: method.toUpperCase(),
    path,
    tag: described.tags?.[0] ?? "",
    isWrite: method !== "get",
  })));
}

const danger = ({ method, isWrite }) => (method === "DELETE" ? "delete" : isWrite ? "writes" : "");

/** Make the element of an operation; what is in it is made when it opens. `defaults` gives texts of parameters by name. */
export function operationView(operation, schemas, defaults) {
  const details = made("details", "operation");
  const summary = made("summary");
  summary.append(made("span", `method ${danger(operation)}`, operation.method), pathView(operation.path));
  if (operation.isWrite) summary.append(made("span", `chip ${danger(operation)}`, operation.method === "DELETE" ? "removes" : "may write"));
  summary.append(made("bdi", "title", tame(operation.summary ?? "", 200)));
  details.append(summary);
  details.addEventListener("toggle", () => {
    if (details.open && details.childElementCount === 1) details.append(insideOf(operation, schemas, defaults));
  });
  return details;
}

/** Make a path that breaks at its slashes. */
function pathView(path) {
  const code = made("code");
  for (const part of path.split(/(?=\/)/)) {
    code.append(made("wbr"), made("span", part.includes("{") ? "part" : "", tame(part)));
  }
  return code;
}

function insideOf(operation, schemas, defaults) {
  const inside = made("div", "inside");
  inside.append(about(operation), tryForm(operation, schemas, defaults), responses(operation, schemas));
  return inside;
}

function about(operation) {
  const part = made("div");
  part.append(...safe(operation.description ?? "").split(/\n\s*\n/).map((one) => prose(one, "prose")));
  const facts = made("p", "facts");
  const link = made("a", "", `#${tame(operation.id)}`);
  link.href = `#${encodeURIComponent(operation.id)}`;
  facts.append(link, made("span", "chip", operation.security ? "needs a token" : "needs no token"));
  part.append(facts);
  return part;
}

/** Make a paragraph of a docstring; what is between backticks is code. */
function prose(text, className) {
  const element = made("p", className);
  for (const [number, one] of safe(text).split("`").entries()) element.append(number % 2 ? made("code", "", one) : one);
  return element;
}

// the form

function tryForm(operation, schemas, defaults) {
  const form = made("form");
  form.className = "body-field";
  const fields = (operation.parameters ?? []).map((parameter) => field(parameter, schemas, defaults(parameter.name)));
  if (fields.length) form.append(part("Parameters", ...fields.map(({ row }) => row)));
  const body = operation.requestBody ? bodyField(operation, schemas) : null;
  if (body) form.append(body.part);
  const request = () => requestOf(operation, fields.map(({ parameter, input }) => [parameter, input.value]), body?.input.value.trim() ?? "");
  const curl = made("pre", "shown-text");
  curl.tabIndex = 0;
  curl.setAttribute("aria-label", "The request for a shell");
  const write = () => { curl.textContent = curlOf(request(), operation.security !== undefined); };
  const answer = made("div", "answer");
  answer.setAttribute("role", "status");
  const go = made("button", `go ${danger(operation)}`, "Try it");
  const stop = made("button", "", "Stop");
  stop.type = "button";
  stop.hidden = true;
  const sending = made("div", "send");
  sending.append(go, stop);
  if (operation.isWrite) sending.append(made("span", "small", "Sent at once: the server does not ask again."));
  const line = made("div", "curl");
  line.append(curl, copyButton(() => curl.textContent));
  form.append(sending, line, answer);
  form.addEventListener("input", write);
  form.addEventListener("change", write);
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    write();
    const control = new AbortController();
    stop.onclick = () => control.abort();
    [go.disabled, stop.hidden] = [true, false];
    await tryRequest(request(), answer, control.signal);
    [go.disabled, stop.hidden] = [false, true];
  });
  write();
  return form;
}

function part(title, ...elements) {
  const section = made("div");
  section.append(made("h3", "", title), ...elements);
  return section;
}

function field(parameter, schemas, given) {
  const row = made("div", "field");
  const label = made("label");
  label.append(made("bdi", "", tame(parameter.name)));
  if (parameter.required) label.append(" ", made("span", "chip required", "required"));
  label.append(made("span", "where", `${parameter.in}, ${schemas.type(parameter.schema ?? {})}`));
  const { schema } = schemas.resolve(parameter.schema ?? {});
  const input = inputOf(schema);
  count += 1;
  [input.id, label.htmlFor, input.required] = [`field-${count}`, `field-${count}`, parameter.required === true];
  input.value = given ?? "";
  // The browser would take such a part for a step between folders.
  if (parameter.in === "path") input.pattern = "(?!\\.{1,2}$).*";
  const cell = made("div");
  cell.append(input);
  const says = [...schemas.limits(schema), parameter.description ?? schema.description ?? ""].filter((one) => one);
  if (says.length) cell.append(prose(says.join(" · "), "says"));
  row.append(label, cell);
  return { parameter, row, input };
}

function inputOf(schema) {
  const values = schema.type === "boolean" ? ["true", "false"] : schema.enum?.map(String);
  if (!values) {
    const input = made("input");
    [input.type, input.autocomplete, input.spellcheck, input.autocapitalize] = ["text", "off", false, "none"];
    if (schema.type === "integer") input.inputMode = "numeric";
    if (schema.default !== undefined && schema.default !== null) input.placeholder = String(schema.default);
    return input;
  }
  const select = made("select");
  for (const value of ["", ...values]) {
    const option = made("option", "", value === "" ? "–" : tame(value));
    option.value = value;
    select.append(option);
  }
  return select;
}

function bodyField(operation, schemas) {
  const { required, content } = operation.requestBody;
  const [[media, { schema, examples }]] = Object.entries(content);
  const input = made("textarea");
  [input.spellcheck, input.autocapitalize, input.required] = [false, "none", required === true];
  input.setAttribute("aria-label", "Body of the request");
  const texts = new Map(Object.entries(examples ?? {}).map(([name, one]) => [one.summary ?? name, one.value]));
  if (!required) texts.set("no body", undefined);
  for (const [name, value] of schemas.samples(schema)) texts.set(name, value);
  const show = (value) => {
    input.value = value === undefined ? "" : indented(JSON.stringify(value));
    input.rows = Math.min(20, input.value.split("\n").length + 1);
  };
  show([...texts.values()][0]);
  const element = made("div", "body-field");
  element.append(made("h3", "", `Body (${tame(media)}${required ? ", required" : ", may be left out"})`), schemas.view(schema));
  if (texts.size > 1) element.append(exampleChoice([...texts.keys()], (name) => show(texts.get(name))));
  element.append(input);
  return { part: element, input };
}

function exampleChoice(names, choose) {
  const label = made("label", "choose", "Example: ");
  const select = made("select");
  for (const name of names) select.append(made("option", "", tame(name)));
  select.addEventListener("change", () => choose(names[select.selectedIndex]));
  label.append(select);
  return label;
}

function copyButton(text) {
  const button = made("button", "", "Copy");
  button.type = "button";
  button.hidden = !navigator.clipboard; // only where the page is of this machine, or over TLS
  button.addEventListener("click", async () => {
    await navigator.clipboard.writeText(text());
    button.textContent = "Copied";
  });
  return button;
}

// the answers

function responses(operation, schemas) {
  const views = Object.entries(operation.responses).map(([status, response]) => responseView(status, response, schemas));
  views[0].open = true;
  return part("Answers", ...views);
}

function responseView(status, { description, content = {}, headers = {} }, schemas) {
  const details = made("details", "response");
  const summary = made("summary");
  summary.append(made("span", `status-of ${status < 300 ? "good" : ""}`, status), made("bdi", "", safe(description ?? "")));
  details.append(summary);
  details.addEventListener("toggle", () => {
    if (!details.open || details.childElementCount > 1) return;
    for (const [media, { schema }] of Object.entries(content)) details.append(made("p", "media", tame(media)), schemas.view(schema ?? {}));
    for (const [name, header] of Object.entries(headers)) details.append(made("p", "media", `header ${tame(name)}: ${tame(header.description ?? "", 300)}`));
    if (details.childElementCount === 1) details.append(made("p", "media", "no body"));
  });
  return details;
}
