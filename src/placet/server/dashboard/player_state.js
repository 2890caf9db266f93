// The state at a moment as tables: one collection at a time, and the agents.

import { byId, made, show, write } from "./chart.js";
import { tame, whole } from "./format.js";
import { cellText } from "./tree.js";

export const PAGE_ROWS = 50;
const KINDS_SHOWN = 4;
const wanted = { collection: null, offset: 0, find: "", findAgent: "" };

/** Name what the page wants to know of the state, as parameters of a moment. */
export function stateQuery() {
  const query = { agents: 100, find_agent: wanted.findAgent, limit: PAGE_ROWS, offset: wanted.offset, find: wanted.find };
  return wanted.collection === null ? query : { ...query, collection: wanted.collection };
}

/** Listen to the choices; `ask` is called when another part is wanted. */
export function startState(ask) {
  byId("collection").addEventListener("change", ({ target }) => { wanted.collection = target.value; wanted.offset = 0; ask(); });
  byId("find-entity").addEventListener("input", ({ target }) => { wanted.find = target.value; wanted.offset = 0; ask(); });
  byId("find-agent").addEventListener("input", ({ target }) => { wanted.findAgent = target.value; ask(); });
  byId("page-back").addEventListener("click", () => { wanted.offset = Math.max(0, wanted.offset - PAGE_ROWS); ask(); });
  byId("page-on").addEventListener("click", () => { wanted.offset += PAGE_ROWS; ask(); });
}

export function clearState() {
  Object.assign(wanted, { collection: null, offset: 0, find: "", findAgent: "" });
  for (const id of ["find-entity", "find-agent"]) byId(id).value = "";
}

/** Show the tables of a moment. Return whether a first collection was chosen, which is to be asked for. */
export function showState(moment, choose) {
  const names = moment.collections.map(({ name }) => name);
  const isNew = wanted.collection === null && names.length > 0;
  if (isNew) wanted.collection = likeliest(moment.collections);
  showNames(moment.collections);
  if (moment.table) showTable(moment.table, choose);
  show("state-empty", names.length === 0);
  if (moment.agents) showAgents(moment.agents, choose);
  return isNew;
}

// The agents' own entities where a domain has such, else what there is most of.
function likeliest(collections) {
  const ofAgents = collections.find(({ name, of_agents: isTheirs }) => isTheirs || /\bagents$/.test(name));
  return (ofAgents ?? collections.reduce((one, other) => (other.count > one.count ? other : one))).name;
}

function showNames(collections) {
  const select = byId("collection");
  const listed = collections.map(({ name, count }) => [name, `${tame(name, 60)} (${whole(count)})`]);
  if (wanted.collection !== null && !collections.some(({ name }) => name === wanted.collection)) {
    listed.push([wanted.collection, `${tame(wanted.collection, 60)} (0)`]);
  }
  const text = JSON.stringify(listed);
  if (select.dataset.text === text) return;
  select.dataset.text = text;
  select.replaceChildren(...listed.map(([name, label]) => {
    const option = made("option", "", label);
    option.value = name;
    option.selected = name === wanted.collection;
    return option;
  }));
}

function showTable({ collection, total, offset, fields, rows }, choose) {
  const table = byId("state");
  const head = made("tr");
  const isNumber = fields.map((_, k) => {
    const known = rows.map(([, values]) => values[k]).filter((value) => value !== null && value !== undefined);
    return known.length > 0 && known.every((value) => typeof value === "number");
  });
  for (const [k, name] of ["id", ...fields].entries()) {
    const cell = made("th", isNumber[k - 1] ? "number" : "", tame(name, 40), true);
    cell.scope = "col";
    head.append(cell);
  }
  table.tHead.replaceChildren(head);
  table.tBodies[0].replaceChildren(...rows.map(([id, values]) => {
    const row = made("tr");
    row.append(linked(id, () => choose(collection, id)), ...values.map((value, k) => {
      const cell = made("td", isNumber[k] ? "number" : "");
      cell.append(made("bdi", "", cellText(value)));
      return cell;
    }));
    return row;
  }));
  const last = offset + rows.length;
  write("page-says", total > rows.length ? `${whole(offset + 1)} to ${whole(last)} of ${whole(total)}` : "");
  byId("page-back").disabled = offset === 0;
  byId("page-on").disabled = last >= total;
  byId("page-back").parentElement.hidden = total <= PAGE_ROWS;
}

function showAgents({ total, rows }, choose) {
  write("agents-of", total > rows.length ? `${whole(rows.length)} of ${whole(total)}` : whole(total));
  byId("agents").tBodies[0].replaceChildren(...rows.map(({ agent_id: name, owner, suspended, permissions }) => {
    const row = made("tr");
    const cell = linked(name, () => choose(null, name));
    if (suspended) cell.append(made("span", "flag", "suspended"));
    row.append(cell, text(owner === name ? "itself" : tame(owner)), text(kinds(permissions)));
    return row;
  }));
}

function kinds(permissions) {
  if (permissions === null) return "every kind";
  const shown = permissions.slice(0, KINDS_SHOWN).map((one) => tame(one, 40)).join(", ");
  return permissions.length > KINDS_SHOWN ? `${shown} and ${permissions.length - KINDS_SHOWN} more` : shown || "nothing";
}

function linked(name, act) {
  const cell = made("td", "name");
  const button = made("button", "link");
  button.type = "button";
  button.append(made("bdi", "", tame(name)));
  button.addEventListener("click", act);
  cell.append(button);
  return cell;
}

function text(value) {
  const cell = made("td");
  cell.append(made("bdi", "", value));
  return cell;
}
