// Plans that an agent proposed and that wait for a person: shown with what they would do, and decided.

import { ask } from "./api.js";
import { byId, made, show } from "./chart.js";
import { tame, whole } from "./format.js";
import { tree } from "./tree.js";

const DECIDE_MS = 120_000; // an approved plan is submitted before the answer comes

const CHANGES_MAX = 20;

let shown = "";
let outcome = null; // of the latest decision

/** Ask for the held plans that the reader may decide, show them, and return their number. */
export async function readApprovals(worldPath, complain) {
  const { approvals } = await ask(worldPath("/approvals"));
  showApprovals(approvals, worldPath, complain);
  return approvals.length;
}

/** Show none, as for another world. */
export function clearApprovals() {
  shown = "";
  outcome = null;
  show("approvals", false);
  byId("approvals-body").replaceChildren();
}

function showApprovals(approvals, worldPath, complain) {
  const text = JSON.stringify(approvals);
  if (text === shown) return; // what is being read, and may be decided, is not made anew
  shown = text;
  show("approvals", approvals.length > 0 || outcome !== null);
  byId("approvals-body").replaceChildren(...(outcome ? [outcome] : []), ...approvals.map((plan) => element(plan, worldPath, complain)));
}

function element(plan, worldPath, complain) {
  const part = made("article", "plan");
  const goal = made("h3", "", tame(plan.goal, 300));
  const who = made("p", "small quiet");
  who.append(made("bdi", "who", tame(plan.proposer, 60)), ` in session ${tame(plan.session, 60)}, judged at seq ${whole(plan.base_seq)}${plan.role ? `, needs ${tame(plan.role, 60)}` : ""}`);
  const actions = made("ol", "plan-actions");
  actions.append(...plan.actions.map(({ kind, payload, if_unchanged: paths = [] }) => {
    const item = made("li");
    item.append(made("bdi", "who", tame(kind, 60)), tree(payload ?? {}));
    item.append(...paths.map((path) => made("p", "small quiet", `if unchanged: ${tame(path, 300)}`)));
    return item;
  }));
  const changes = made("ul", "plan-changes");
  changes.append(...changeLines(plan.diff));
  const row = made("div", "actions");
  for (const [decision, label] of [["approve", "Approve"], ["deny", "Deny"]]) {
    const button = made("button", decision === "approve" ? "primary" : "", label);
    button.type = "button";
    button.setAttribute("aria-label", `${label}: ${tame(plan.goal, 80)}`);
    button.addEventListener("click", () => decide(plan, decision, row, worldPath, complain));
    row.append(button);
  }
  part.append(goal, who, actions, changes, row);
  return part;
}

/** Name the changes that a plan makes; a value that is decided when it is applied is never shown as one. */
function changeLines(diff) {
  if (!diff.length) return [made("li", "quiet", "It changes nothing.")];
  const lines = diff.slice(0, CHANGES_MAX).map(({ path, op, old, new: next }) => {
    const item = made("li");
    const value = op === "undecided" ? "decided when applied" : `${old === null ? "" : `${tame(old, 80)} → `}${op === "remove" ? "removed" : tame(next, 80)}`;
    item.append(made("bdi", "key", tame(path, 120)), " ", made("bdi", op === "undecided" ? "quiet" : "", value));
    return item;
  });
  if (diff.length > CHANGES_MAX) lines.push(made("li", "quiet", `and ${whole(diff.length - CHANGES_MAX)} more`));
  return lines;
}

/** Tell what became of a decided plan, until the next decision. */
function showOutcome(turn) {
  const part = made("article", "plan outcome");
  part.setAttribute("role", "status");
  part.append(made("h3", "", `${tame(turn.outcome, 40)}: ${tame(turn.message || turn.stop, 300)}`));
  if (turn.outcome === "applied") {
    const changes = made("ul", "plan-changes");
    changes.append(...changeLines(turn.diff));
    part.append(changes);
  }
  outcome = part;
}

async function decide({ session, id }, decision, row, worldPath, complain) {
  for (const button of row.children) button.disabled = true;
  try {
    showOutcome(await ask(worldPath(`/sessions/${encodeURIComponent(session)}/approvals/${encodeURIComponent(id)}`), { body: { decision }, patienceMs: DECIDE_MS }));
  } catch (error) {
    complain(error);
  }
  shown = "";
  await readApprovals(worldPath, complain).catch(complain);
}
