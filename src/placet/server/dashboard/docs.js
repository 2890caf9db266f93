// The page of the API: the operations of the server's OpenAPI document, which can be found, linked and tried.

import { ask, hasToken } from "./api.js";
import { byId, made, show, write } from "./chart.js";
import { operationsOf, operationView } from "./docs_operation.js";
import { Schemas } from "./docs_schema.js";
import { safe, tame, whole } from "./format.js";
import { complain, showOpened, stand, startSignIn } from "./sign_in.js";
import { showReader } from "./worlds.js";

let shown = []; // [{operation, element, text}], in the order of the page
let api = null;
let world = "";

async function readDocument() {
  api = await ask("openapi.json");
  write("about", `${tame(api.info.title)} ${tame(api.info.version)}. ${safe(api.info.description ?? "")}`);
  const schemas = new Schemas(api);
  const defaults = (name) => (name === "world" ? world : "");
  shown = operationsOf(api).map((operation) => ({ operation, element: operationView(operation, schemas, defaults), text: wordsIn(operation) }));
  const tags = [...new Set(shown.map(({ operation }) => operation.tag))];
  byId("operations").replaceChildren(...tags.map(group));
  for (const { operation, element } of shown) {
    element.addEventListener("toggle", () => { if (element.open) history.replaceState(null, "", addressOf(operation)); });
  }
  find();
}

const addressOf = ({ id }) => `#${encodeURIComponent(id)}`;

const wordsIn = ({ id, method, path, tag, summary, description }) => [id, method, path, tag, summary, description].join("\n").toLowerCase();

function group(tag) {
  const section = made("section", "tag-group");
  section.append(made("h2", "", tame(tag)), ...shown.filter(({ operation }) => operation.tag === tag).map(({ element }) => element));
  return section;
}

/** Show the operations that have all the words that are looked for. */
function find() {
  const words = byId("find").value.toLowerCase().split(/\s+/);
  let count = 0;
  for (const { element, text } of shown) {
    element.hidden = !words.every((word) => text.includes(word));
    count += Number(!element.hidden);
  }
  for (const section of byId("operations").children) section.hidden = !section.querySelector(".operation:not([hidden])");
  write("found", count === shown.length ? whole(count) : `${whole(count)} of ${whole(shown.length)}`);
}

/** Open the operation that the address names. */
function openLinked() {
  const linked = shown.find(({ operation }) => addressOf(operation) === location.hash || `#${operation.id}` === location.hash);
  if (!linked) return;
  linked.element.hidden = linked.element.parentElement.hidden = false;
  linked.element.open = true;
  linked.element.scrollIntoView();
  linked.element.firstChild.focus({ preventScroll: true });
}

/** Greet the reader, and look up the world with which the forms begin. */
async function open() {
  const isServed = "/api/v1/worlds" in (await reading).paths;
  const { worlds, submitter } = await ask(isServed ? "api/v1/worlds" : "api/v1/history");
  world = worlds[0]?.world ?? "";
  showReader(submitter ?? "operator");
  showOpened();
  show("without-token", false);
  stand("ready", "ready", "");
}

function close() {
  show("without-token", true);
  if (api) stand("ready", "ready");
}

async function begin() {
  await readDocument();
  show("content", true);
  if (!hasToken()) stand("ready", "ready");
  openLinked();
  return api;
}

byId("find").addEventListener("input", find);
byId("filter").addEventListener("submit", (event) => event.preventDefault());
byId("close-all").addEventListener("click", () => { for (const { element } of shown) element.open = false; });
byId("enter").addEventListener("click", () => { show("sign-in", true); byId("token").focus(); });
document.addEventListener("keydown", (event) => {
  if (event.key !== "/" || event.ctrlKey || event.metaKey || event.target.closest("input, select, textarea")) return;
  event.preventDefault();
  byId("find").focus();
});
const reading = begin();
reading.catch(complain);
startSignIn({ open, close, move: openLinked, isPublic: true });
