// What stands around the feed: facts, rates, refusals by code, agents.

import { byId, drawLine, made, show, write } from "./chart.js";
import { between, total } from "./metrics.js";
import { clockOf, DURABILITY, perSecond, span, tame, whole } from "./format.js";

export const SPAN_MS = 120_000;
const NOW_MS = 10_000;
const TIMES_MS = 30_000;
const CODES_MAX = 12;

export function showFacts(world, agentCount) {
  write("fact-domains", world.domains.map((one) => tame(one)).join(", "));
  const kept = DURABILITY[world.durability];
  write("fact-store", [...new Set([world.store, world.durability])].map((one) => tame(one)).join(" · "));
  byId("fact-store").title = kept ?? "";
  write("fact-seq", whole(world.seq));
  write("fact-time", `${span(world.sim_time)} · ${clockOf(world.clock)}`);
  write("fact-records", whole(world.records));
  byId("fact-agents").parentElement.hidden = agentCount === null;
  if (agentCount !== null) write("fact-agents", whole(agentCount));
}

/** Show rates and refusals of a history; `own` says that it is of what an agent's token saw. */
export function showRates(history, own) {
  const recent = history.since(NOW_MS);
  const seconds = (history.last.atMs - recent.atMs) / 1000;
  for (const outcome of ["admitted", "refused"]) {
    const rate = seconds > 0 ? (history.last[outcome] - recent[outcome]) / seconds : null;
    const text = rate === null ? "–" : perSecond(rate);
    write(`rate-${outcome}`, text);
    const rates = history.rates(outcome);
    const most = perSecond(Math.max(0, ...rates.map(([, value]) => value)));
    drawLine(`line-${outcome}`, rates, SPAN_MS, `${outcome} intents a second in the last two minutes: ${text} now, ${most} at most`);
    const since = own ? "since this page looks" : "since the server began";
    write(`count-${outcome}`, `at most ${most} in 2 min · ${whole(history.last[outcome])} ${since}`);
  }
  showRefusals(history, own);
}

function showRefusals(history, own) {
  const early = history.since(SPAN_MS).refusals;
  const rows = [...history.last.refusals]
    .map(([code, count]) => ({ code, count, recent: count - (early.get(code) ?? 0) }))
    .sort((one, other) => other.recent - one.recent || other.count - one.count);
  const most = Math.max(1, ...rows.map(({ recent }) => recent));
  show("why", rows.length > 0);
  show("why-empty", rows.length === 0);
  write("why-all", own ? "seen" : "in all");
  write("why-of", rows.length > CODES_MAX ? `${CODES_MAX} of ${rows.length} codes` : "");
  byId("why").tBodies[0].replaceChildren(...rows.slice(0, CODES_MAX).map((row) => refusalRow(row, most)));
}

function refusalRow({ code, count, recent }, most) {
  const [stage, ...rest] = code.split("/");
  const row = made("tr");
  const name = made("td");
  const meter = made("meter");
  meter.max = most;
  meter.value = recent;
  meter.ariaHidden = "true"; // the number stands beside it
  name.append(made("span", "stage", `${tame(stage)}/`), made("bdi", "", tame(rest.join("/"))), meter);
  row.append(name, made("td", "", whole(recent)), made("td", "", whole(count)));
  return row;
}

/** Show what only the operator's metrics tell. */
export function showLoad(metrics, history) {
  write("waiting", whole(total(metrics, "placet_mailbox_depth", { actor: "orchestrator" }) ?? 0));
  const oldest = total(metrics, "placet_mailbox_oldest_seconds") ?? 0;
  write("oldest", oldest > 0 ? `the oldest for ${span(oldest)}` : "no queue");
  const before = history.since(TIMES_MS).times;
  for (const name of ["decide", "commit", "verdict"]) {
    const found = between(before[name], history.last.times[name]);
    const text = found && Number.isFinite(found.bound) ? `≤ ${span(found.bound)}` : "";
    byId(`time-${name}`).replaceChildren(found ? span(found.mean) : "–", " ", made("small", "", text));
  }
  write("times-say", "mean of 30 s · 99 in 100 within");
}

/** Show agents; `acts` has what each was seen to do last, `storyOf` makes the way to the story of one. */
export function showAgents({ agents, next }, acts, count, storyOf) {
  show("agents", agents.length > 0);
  show("agents-empty", agents.length === 0);
  const all = count ?? agents.length;
  write("agents-of", next === null ? "" : `the first ${whole(agents.length)} of ${whole(all)} by name`);
  byId("agents").tBodies[0].replaceChildren(...agents.map((agent) => agentRow(agent, acts.get(agent.agent_id), storyOf)));
}

function agentRow({ agent_id, owner, suspended, permissions }, act, storyOf) {
  const row = made("tr");
  const name = made("td");
  name.append(storyOf(agent_id));
  if (suspended) name.append(made("span", "flag", "suspended"));
  if (permissions !== null && !permissions.length) name.append(made("span", "flag", "may nothing"));
  const ofIts = owner === agent_id ? "itself" : tame(owner);
  row.append(name, wrapped(ofIts), wrapped(act ?? ""));
  return row;
}

function wrapped(text) {
  const cell = made("td");
  cell.append(made("bdi", "", text));
  return cell;
}
