// The story of one agent, or of one request of it: its records as sentences, each the way to its moment.

import { ask } from "./api.js";
import { made } from "./chart.js";
import { saidOf, tame, whole } from "./format.js";
import { line } from "./player_feed.js";

const PAGE = 40;
const PATIENCE_MS = 60_000;
const AGAIN_MS = 200;

/** Read a story and return its elements; `doors` has {path, jump}. A long log is read in parts. */
export async function story(doors, agent, request = "") {
  const list = made("ol", "feed story");
  list.tabIndex = 0;
  list.ariaLabel = `The story of ${tame(request || agent, 60)}`;
  const count = made("span", "quiet");
  const order = choice("newest first", true);
  const failures = choice("failures only", false);
  const more = made("button", "", "Show more");
  more.type = "button";
  const head = made("div", "story-head");
  head.append(count, order.label, failures.label);
  const read = { next: null, turn: 0 };

  async function page(isFirst) {
    const turn = isFirst ? ++read.turn : read.turn;
    const query = new URLSearchParams({ agent, limit: PAGE, back: order.box.checked, failures: failures.box.checked });
    if (request) query.set("request", request);
    if (!isFirst) query.set("start", read.next);
    const found = await ask(doors.path(`/story?${query}`), { patienceMs: PATIENCE_MS });
    if (turn !== read.turn) return;
    read.next = found.next;
    const shown = found.events.map((event) => line(saidOf(event, agent), () => doors.jump({ record: event.record, batch: event.batch }))).filter(Boolean);
    if (isFirst) list.replaceChildren(...shown);
    else list.append(...shown);
    more.hidden = found.next === null;
    const isPart = found.read < found.records;
    const left = found.left_out ? `, the oldest ${whole(found.left_out)} are left out` : "";
    count.textContent = isPart
      ? `${whole(found.read)} of ${whole(found.records)} records are read …`
      : `${whole(found.total)} ${found.total === 1 ? "event" : "events"}, ${whole(found.failures)} of them ${found.failures === 1 ? "a failure" : "failures"}${left}`;
    if (!list.childElementCount) list.append(made("li", "gap", failures.box.checked ? "Nothing of it failed." : "The log has nothing about it."));
    if (isPart && isFirst && list.isConnected) setTimeout(() => again(true), AGAIN_MS);
  }

  async function again(isFirst) {
    try {
      await page(isFirst);
    } catch (error) {
      count.textContent = tame(error.message, 300);
    }
  }

  for (const { box } of [order, failures]) box.addEventListener("change", () => again(true));
  more.addEventListener("click", () => again(false));
  await page(true);
  if (count.textContent.endsWith("…")) setTimeout(() => again(true), AGAIN_MS);
  const heading = request ? `The story of request ${tame(request, 60)} of ${tame(agent, 60)}` : `The story of ${tame(agent, 60)}`;
  return [made("h3", "", heading), head, list, more];
}

function choice(name, isChosen) {
  const box = made("input");
  box.type = "checkbox";
  box.checked = isChosen;
  const label = made("label");
  label.append(box, ` ${name}`);
  return { box, label };
}
