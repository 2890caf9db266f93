// One request for approval as a card: what, by whom, what it would change, and the ways to decide.

import { made } from "./chart.js";
import { escaped, span, tame, whole } from "./format.js";
import { tree } from "./tree.js";

const CHANGES_MAX = 50;
const REASON_CHARS_MAX = 2_000;

const STATES = {
  open: "open", approved: "approved", denied: "denied", amended: "amended", expired: "not decided in time", stale: "stale: it would no longer do what was shown",
};
const STATUSES = {
  running: "running …", done: "done", failed: "failed: certainly not done", doubt: "in doubt: started, outcome unknown", unknown: "outcome not in the log any more",
};

/** Parse JSON with integers beyond 2^53 as they are written, where the browser can. */
export const exactly = (text) => JSON.parse(text, (_, value, context) =>
  Number.isInteger(value) && !Number.isSafeInteger(value) && context?.source && JSON.rawJSON ? JSON.rawJSON(context.source) : value);

export const titleOf = ({ about, calls }) => tame(typeof about.goal === "string" && about.goal ? about.goal : calls.map(({ kind }) => kind).join(", "), 300);

/** The card of one request. `send` posts a decision and gives null, or the problem that refused it. */
export class Card {
  constructor(approval, send) {
    this.approval = approval;
    this.send = send;
    this.element = made("article", `plan ${approval.state}`);
    this.element.dataset.id = approval.id;
    this.error = made("p", "form-error");
    this.error.setAttribute("role", "alert");
    this.left = made("b");
    this.element.append(
      made("h3", "", titleOf(approval)), this.facts(), this.calls(), made("h4", "", "What it changes"), this.changes(), this.about(), this.outcome(),
    );
    if (approval.decides) this.element.append(this.form());
    else if (approval.state === "open") this.element.append(made("p", "small quiet", "This token may not decide about it."));
    this.tick(approval.left_s);
  }

  tick(seconds) {
    if (this.approval.state === "open") this.left.textContent = seconds > 0 ? `${span(seconds)} left` : "time is over";
  }

  facts() {
    const { agent, risk, role, cost, deciders, state } = this.approval;
    const line = made("p", "small facts");
    line.append(pair("by", tame(agent, 128)), pair("risk", tame(risk), `risk ${risk}`));
    if (cost !== null && cost !== undefined) line.append(pair("cost", tame(cost, 80)));
    line.append(pair("needs", role ? `the role ${tame(role, 64)}` : "any person"));
    if (state === "open") {
      line.append(pair("may decide", deciders.length ? deciders.map((one) => tame(one, 64)).join(", ") : "nobody has this role"));
      line.append(this.left);
    }
    return line;
  }

  calls() {
    const list = made("ol", "plan-actions");
    list.append(...this.approval.calls.map(({ kind, payload, conditions, status, output }) => {
      const item = made("li");
      item.append(made("bdi", "who", tame(kind, 128)), tree(payload ?? {}));
      item.append(...conditions.map((text) => made("p", "small quiet", `only if ${tame(text, 300)}`)));
      if (status) {
        const ended = made("p", `status ${status}`);
        ended.append(made("b", "", STATUSES[status] ?? tame(status)));
        item.append(ended);
        if (output !== null && output !== undefined) item.append(tree(typeof output === "object" && !Array.isArray(output) ? output : { output }));
      }
      return item;
    }));
    return list;
  }

  /** Name the changes; a value that is decided when it is applied is never shown as one. */
  changes() {
    const { changes } = this.approval;
    const list = made("ul", "plan-changes");
    if (changes === null) list.append(made("li", "quiet", "The changes are shown to the persons who may decide."));
    else if (!changes.length) list.append(made("li", "quiet", "Nothing in this world."));
    else {
      list.append(...changes.slice(0, CHANGES_MAX).map(({ entity, field, op, old, new: next }) => {
        const item = made("li");
        const value = op === "undecided" ? "decided when applied" : `${old === null ? "" : `${tame(old, 200)} → `}${op === "remove" ? "removed" : tame(next, 200)}`;
        item.append(made("bdi", "key", tame(field === null ? entity : `${entity}/${field}`, 300)), " ", made("bdi", op === "undecided" ? "quiet" : "", value));
        return item;
      }));
      if (changes.length > CHANGES_MAX) list.append(made("li", "quiet", `and ${whole(changes.length - CHANGES_MAX)} more`));
    }
    return list;
  }

  about() {
    const { goal, cost, ...more } = this.approval.about;
    if (!Object.keys(more).length) return "";
    const part = made("div", "small");
    part.append(made("h4", "", "The agent’s program says"), tree(more));
    return part;
  }

  outcome() {
    const { state, by, reason, amended_by: other } = this.approval;
    if (state === "open") return "";
    const part = made("p", `outcome ${state}`);
    part.setAttribute("role", "status");
    part.append(made("b", "", STATES[state] ?? tame(state)));
    if (by && by !== "approvals.recorder") part.append(" by ", made("bdi", "who", tame(by, 128)));
    if (reason) part.append(": ", made("bdi", "", tame(reason, 2_000)));
    if (other) part.append(" ", made("span", "quiet", "What was approved in its place is below."));
    return part;
  }

  form() {
    const title = titleOf(this.approval);
    const form = made("div", "decide");
    const label = made("label", "small", "Reason ");
    this.reason = made("input");
    this.reason.maxLength = REASON_CHARS_MAX;
    this.reason.autocomplete = "off";
    label.append(this.reason);
    const row = made("div", "actions");
    const button = (text, className, act) => {
      const made_ = made("button", className, text);
      made_.type = "button";
      made_.setAttribute("aria-label", `${text}: ${title}`);
      made_.addEventListener("click", act);
      row.append(made_);
      return made_;
    };
    button("Approve", "primary", () => this.decide({ decision: "approve" }));
    button("Deny", "", () => this.decide({ decision: "deny" }));
    const amend = button("Amend", "", () => this.amend(amend));
    amend.setAttribute("aria-expanded", "false");
    this.row = row;
    this.editor = made("div", "amend");
    this.editor.hidden = true;
    form.append(label, row, this.editor, this.error);
    return form;
  }

  /** Open the arguments as JSON, a field for each call; or close them again. */
  amend(button) {
    const isShown = this.editor.hidden;
    this.editor.hidden = !isShown;
    button.setAttribute("aria-expanded", String(isShown));
    if (!isShown || this.editor.firstChild) return;
    this.fields = this.approval.calls.map(({ kind, payload }, number) => {
      const label = made("label", "small", `Arguments of ${tame(kind, 128)}`);
      const area = made("textarea");
      area.value = escaped(JSON.stringify(payload, null, 2));
      area.rows = Math.min(12, area.value.split("\n").length + 1);
      area.spellcheck = false;
      const error = made("p", "form-error");
      error.id = `error-${this.approval.id}-${number}`;
      error.setAttribute("role", "alert");
      area.setAttribute("aria-describedby", error.id);
      label.append(area);
      this.editor.append(label, error);
      return { kind, area, error };
    });
    const send = made("button", "primary", "Approve these instead");
    send.type = "button";
    send.addEventListener("click", () => this.decideAmended());
    this.editor.append(send);
    this.fields[0].area.focus();
  }

  decideAmended() {
    const calls = [];
    for (const { kind, area, error } of this.fields) {
      error.textContent = "";
      try {
        const payload = exactly(area.value);
        if (payload === null || typeof payload !== "object" || Array.isArray(payload)) throw new Error("arguments are an object, { … }");
        calls.push({ kind, payload });
      } catch (fault) {
        error.textContent = `This is no JSON object: ${tame(fault.message, 200)}`;
        area.focus();
      }
    }
    if (calls.length === this.fields.length) this.decide({ decision: "amend", calls });
  }

  async decide(decision) {
    const controls = [...this.element.querySelectorAll("button, input, textarea")];
    for (const one of controls) one.disabled = true;
    this.error.textContent = "";
    for (const { error } of this.fields ?? []) error.textContent = "";
    const problem = await this.send({ ...decision, digest: this.approval.digest, reason: this.reason.value });
    if (!problem) return;
    for (const one of controls) one.disabled = false;
    this.explain(problem);
  }

  /** Show why a decision was refused, beside the call that is at fault. */
  explain({ message, refusals }) {
    const others = [];
    for (const { call, message: why, suggestions } of refusals ?? []) {
      const hint = suggestions?.length ? ` (${suggestions.join("; ")})` : "";
      const text = tame(`${why}${hint}`, 500);
      const field = call === null ? undefined : this.fields?.[call];
      if (field) field.error.textContent = text;
      else others.push(text);
    }
    if (!refusals?.length) others.push(tame(message, 500));
    this.error.textContent = others.join(" ");
  }
}

function pair(key, text, className = "") {
  const part = made("span", className);
  part.append(made("span", "key", `${key} `), made("bdi", "", text));
  return part;
}
