// One request for approval as a card: what, by whom, what it would change, and the ways to decide.

import { made } from "./chart.js";
import { button, decisionForm, pair, sayUnread } from "./decision_form.js";
import { parseExactly } from "./exact_json.js";
import { span, tame, whole } from "./format.js";
import { Reading } from "./reading.js";
import { tree } from "./tree.js";
import { appendWritten, pathText, prose, remarkElements, written } from "./values.js";

const CHANGES_SHOWN = 50;

const OUTSIDE = "The function runs outside this world; placet does not know what it changes.";

const STATES = {
  __proto__: null, open: "open", approved: "approved", denied: "denied", amended: "amended", expired: "not decided in time", stale: "stale: it would no longer do what was shown",
};
const WORDS = { __proto__: null, running: "running …", done: "done", failed: "failed", doubt: "in doubt", unknown: "outcome unknown" };
const STATUSES = {
  __proto__: null, running: "running …", done: "done", failed: "failed: certainly not done", doubt: "in doubt: started, outcome unknown", unknown: "outcome not in the log any more",
};

const goalOf = ({ about }) => (typeof about.goal === "string" ? about.goal : "");

/** Name a request in a line, for its controls. */
const titleOf = (approval) => tame(goalOf(approval) || approval.calls.map(({ kind }) => kind).join(", "), 300);

/** The card of one request. `send` posts a decision and gives null, or the problem that refused it;
 * `foresee` posts an amendment as a dry run and gives {shown}, the request that it would make, or {problem}. */
export class Card {
  constructor(approval, send, foresee) {
    this.approval = approval;
    this.send = send;
    this.foresee = foresee;
    this.reading = new Reading(() => this.gate());
    this.element = made("article", `plan ${approval.state}`);
    this.element.dataset.id = approval.id;
    this.left = made("b");
    this.age = made("span");
    this.element.append(
      this.title(), this.facts(), ...this.why(), this.calls(), made("h4", "", "What it changes"), this.changes(), this.about(), this.outcome(),
    );
    if (approval.decides) this.element.append(this.form());
    else if (approval.state === "open") this.element.append(made("p", "small quiet", "This token may not decide about it."));
    this.tick(approval);
    this.gate();
  }

  tick({ left_s: left, age_s: age }) {
    if (age !== null && age !== undefined) this.age.textContent = age < 1 ? "asked just now" : `asked ${span(Math.floor(age))} ago`;
    if (this.approval.state === "open") this.left.textContent = left > 0 ? `${span(Math.ceil(left))} left` : "time is over";
  }

  /** Name the goal; without one the call, whose name is then not repeated beside its arguments. */
  title() {
    const { calls } = this.approval;
    const goal = goalOf(this.approval);
    return this.reading.text("h3", "", goal || (calls.length === 1 ? calls[0].kind : `${calls.length} calls, decided as one`));
  }

  facts() {
    const { agent, risk, role, cost, deciders, state } = this.approval;
    const line = made("p", "small facts");
    line.append(pair("by", this.reading.text("bdi", "", agent)), pair("risk", made("bdi", "", tame(risk)), `risk ${risk}`));
    if (cost !== null && cost !== undefined) line.append(pair("cost", this.reading.value(cost)));
    line.append(pair("needs", role ? this.reading.text("bdi", "", `the role ${role}`) : made("bdi", "", "any person")));
    if (state === "open") line.append(made("span", "", deciders.length ? `${deciders.map(prose).join(", ")} may decide` : "nobody has this role"));
    line.append(this.age);
    if (state === "open") line.append(this.left);
    return line;
  }

  /** Say why a person is asked, as the program that asks has it. */
  why() {
    const { asks } = this.approval;
    if (!asks.length) return [];
    const list = made("ul", "plan-asks");
    list.append(...this.reading.items(asks, (one) => this.reading.text("li", "", one)));
    return [made("h4", "", "Why a person is asked"), list];
  }

  calls({ calls } = this.approval, reading = this.reading) {
    const isNamed = goalOf(this.approval) || calls.length > 1;
    const list = made("ol", isNamed ? "plan-actions" : "plan-actions single");
    list.append(...calls.map(({ kind, payload, conditions, defaults, status, output }) => {
      const item = made("li");
      if (isNamed) item.append(reading.text("bdi", "who", kind));
      item.append(tree(payload ?? {}, true, reading, new Map(defaults.map((name) => [name, "(default)"]))));
      item.append(...conditions.map((text) => reading.text("p", "small quiet", `only if ${text}`)));
      if (status) {
        const ended = made("p", `status ${status}`);
        ended.append(made("b", "", STATUSES[status] ?? tame(status)));
        item.append(ended);
        if (output !== null && output !== undefined) item.append(tree({ output }, true, reading));
      }
      return item;
    }));
    return list;
  }

  /** Name the changes; a value that is decided when it is applied is never shown as one. */
  changes({ changes, outside } = this.approval, reading = this.reading) {
    const list = made("ul", "plan-changes");
    if (changes === null) list.append(made("li", "quiet", "The changes are shown to the persons who may decide."));
    else list.append(...reading.items(changes, (one) => this.change(one, reading), "li", CHANGES_SHOWN));
    if (outside) list.append(made("li", "quiet", OUTSIDE));
    else if (changes?.length === 0) list.append(made("li", "quiet", "Nothing in this world."));
    return list;
  }

  change({ entity, field, op, old, new: next }, reading) {
    const item = made("li");
    const path = pathText(field === null ? entity.split("/") : [...entity.split("/"), field]);
    item.append(appendWritten(made("bdi", "key"), path), ...remarkElements([entity, field]), " ");
    if (op === "undecided") item.append(made("bdi", "quiet", "decided when applied"));
    else if (field === null) item.append(made("bdi", "", op === "remove" ? "removed" : "made"));
    else {
      if (op !== "add") item.append(reading.value(old), " → ");
      item.append(op === "remove" ? made("bdi", "", "removed") : reading.value(next));
    }
    return item;
  }

  about() {
    // What is shown above is left out; what has another form than is shown there is not.
    const { goal, cost, asks, ...more } = this.approval.about;
    if (goal !== undefined && goal !== goalOf(this.approval)) more.goal = goal;
    if (asks !== undefined && !(Array.isArray(asks) && asks.every((one) => typeof one === "string"))) more.asks = asks;
    if (!Object.keys(more).length) return "";
    const part = made("div", "small");
    part.append(made("h4", "", "The agent’s program says"), tree(more, true, this.reading));
    return part;
  }

  outcome() {
    const { state, by, reason, amended_by: other } = this.approval;
    if (state === "open") return "";
    const part = made("p", `outcome ${state}`);
    part.setAttribute("role", "status");
    part.append(made("b", "", STATES[state] ?? tame(state)));
    if (by && by !== "approvals.recorder") part.append(" by ", made("bdi", "who", prose(by)));
    if (reason) part.append(": ", this.reading.text("bdi", "", reason));
    if (other) part.append(" ", made("span", "quiet", "What was approved in its place is below."));
    this.ended = made("div", "ended");
    this.ended.tabIndex = -1;
    this.ended.append(part, this.ends());
    return this.ended;
  }

  /** Count how the approved calls ended, beside the decision: their own lines may be out of sight. */
  ends() {
    const statuses = this.approval.calls.map(({ status }) => status).filter(Boolean);
    const counts = [...new Set(statuses)].map((one) => [one, statuses.filter((other) => other === one).length]);
    const words = counts.map(([one, count]) => (statuses.length > 1 ? `${whole(count)} ${WORDS[one] ?? tame(one)}` : WORDS[one] ?? tame(one)));
    return statuses.length ? made("p", "small", words.join(", ")) : "";
  }

  /** Show the reader the outcome of the decision that was just made here. */
  confirm() {
    this.ended?.focus();
  }

  form() {
    const title = titleOf(this.approval);
    const { form, reason, row, unread, error } = decisionForm(this.approval.id, "Reason ");
    this.approve = button("Approve", "primary", () => this.decide({ decision: "approve" }), title);
    this.approve.setAttribute("aria-describedby", unread.id);
    this.amendButton = button("Amend", "", () => this.amend(), title);
    row.append(this.approve, button("Deny", "", () => this.decide({ decision: "deny" }), title), this.amendButton);
    this.editor = made("div", "amend");
    this.editor.hidden = true;
    row.after(this.editor);
    Object.assign(this, { reason, row, unread, error });
    return form;
  }

  /** Keep the approval back while a part of what is approved is not shown. */
  gate() {
    if (!this.approve) return;
    const isHeld = sayUnread(this.unread, [this.reading, ...(this.foreseen ? [this.foreseen.reading] : [])], "approve") > 0;
    this.approve.disabled = isHeld;
    if (this.instead) this.instead.disabled = isHeld || !this.foreseen;
  }

  /** Open the arguments as JSON, a field for each call, in place of the decisions about the request as it is. */
  amend() {
    this.fields = this.approval.calls.map(({ kind, payload }, number) => {
      const label = made("label", "small", `Arguments of ${prose(kind)}`);
      const area = made("textarea");
      area.value = written(payload, 2);
      area.rows = Math.min(12, area.value.split("\n").length + 1);
      area.spellcheck = false;
      const error = made("p", "form-error");
      error.id = `error-${this.approval.id}-${number}`;
      error.setAttribute("role", "alert");
      area.setAttribute("aria-describedby", error.id);
      area.addEventListener("input", () => this.forget());
      label.append(area);
      this.editor.append(label, error);
      return { kind, area, error };
    });
    const row = made("div", "actions");
    const acts = [["Show what would run", "", () => this.look()], ["Approve these instead", "primary", () => this.decideAmended()], ["Cancel", "", () => this.cancel()]];
    const buttons = acts.map((one) => button(...one));
    row.append(...buttons);
    [this.lookButton, this.instead] = buttons;
    this.preview = made("div", "foreseen");
    this.preview.tabIndex = -1;
    this.preview.hidden = true;
    this.editor.append(this.preview, row);
    this.gate();
    this.show(true);
    this.fields[0].area.focus();
  }

  /** Drop the edits, and decide about the request as it is. */
  cancel() {
    this.forget();
    this.editor.replaceChildren();
    this.fields = [];
    this.error.textContent = "";
    this.show(false);
    this.amendButton.focus();
  }

  show(isAmended) {
    this.editor.hidden = !isAmended;
    this.row.hidden = isAmended;
    this.gate();
  }

  /** Show the calls of the fields as they would run, by a dry run; only these can then be approved. */
  async look() {
    const calls = this.edited();
    if (!calls) return;
    this.forget();
    this.error.textContent = "";
    if (calls.every(({ payload }, number) => written(payload) === written(this.approval.calls[number].payload))) {
      this.error.textContent = "These are the calls of the request. Change one, or cancel and approve the request.";
      return;
    }
    this.lookButton.disabled = true;
    const fields = this.fields;
    const { shown, problem } = await this.foresee({ decision: "amend", calls: calls.map(({ kind, payload }) => ({ kind, payload })), digest: this.approval.digest });
    if (this.fields !== fields) return; // canceled meanwhile
    this.lookButton.disabled = false;
    if (problem) {
      this.explain(problem);
      return;
    }
    if (fields.some(({ area }, number) => area.value !== calls[number].text)) return;
    const reading = new Reading(() => this.gate());
    this.foreseen = { calls, digest: shown.digest, reading };
    this.preview.append(
      made("h4", "", "What would run instead"), this.calls(shown, reading), made("h4", "", "What it changes"), this.changes(shown, reading),
      pairOfRisk(shown.risk),
    );
    this.preview.hidden = false;
    this.gate();
    this.preview.focus();
  }

  /** Drop what was shown: another text would run something else. */
  forget() {
    this.foreseen = null;
    this.preview.replaceChildren();
    this.preview.hidden = true;
    this.gate();
  }

  decideAmended() {
    const { calls, digest } = this.foreseen;
    this.decide({ decision: "amend", calls: calls.map(({ kind, payload }) => ({ kind, payload })), foreseen: digest });
  }

  /** Read the fields; show the faults in them, and give null if there are any. */
  edited() {
    const calls = [];
    for (const { kind, area, error } of this.fields) {
      error.textContent = "";
      try {
        const payload = parseExactly(area.value);
        if (payload === null || typeof payload !== "object" || Array.isArray(payload)) throw new Error("arguments are an object, { … }");
        calls.push({ kind, payload, text: area.value });
      } catch (fault) {
        error.textContent = `This is no JSON object: ${tame(fault.message, 200)}`;
        area.focus();
      }
    }
    return calls.length === this.fields.length ? calls : null;
  }

  async decide(decision) {
    const controls = [...this.element.querySelectorAll("button, input, textarea")];
    for (const one of controls) one.disabled = true;
    this.error.textContent = "";
    for (const { error } of this.fields ?? []) error.textContent = "";
    const problem = await this.send({ ...decision, digest: this.approval.digest, reason: this.reason.value });
    if (!problem) return;
    for (const one of controls) one.disabled = false;
    this.gate();
    if (!this.editor.hidden) {
      this.forget();
      this.show(true);
    }
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

function pairOfRisk(risk) {
  const line = made("p", "small facts");
  line.append(pair("risk", made("bdi", "", tame(risk)), `risk ${risk}`));
  return line;
}
