"""A second gate, written from the specification for readability: slow, and without optimizations.

Plain dicts; the whole world is copied before each batch and restored if the batch is refused;
the author of every change is kept. `test_reference_model.py` compares the kernel with it.
"""

import pickle
from collections.abc import Callable, Mapping, Sequence
from math import ceil
from typing import Any

from tests.kernel.reference.fairground import POST, PURSES, STALLS
from tests.kernel.reference.reference_world import (
    KINDS,
    SECOND,
    Answer,
    World,
    content_of,
    kept,
    key_of,
)


class Model(World):
    """A world of the fairground. Times are nanoseconds; `limits` are those of the kernel."""

    def remove(self, agent: str) -> None:
        """Remove an agent; its scheduled batches are refused before the name is reused."""
        super().remove(agent)
        for number in sorted(self.schedule, key=lambda n: (self.schedule[n][0], n)):
            batch = self.schedule[number][1]
            if agent in [intent["agent_id"] for intent in batch["intents"]]:
                self.decide(batch, number)

    # batches

    def due(self) -> list[int]:
        """Numbers of the scheduled batches that are due, in their order of arrival in the group."""
        return sorted(
            (n for n, (at, _) in self.schedule.items() if at <= self.now),
            key=lambda n: (self.schedule[n][0], n),
        )

    def decide(self, batch: Mapping[str, Any], due: int | None = None) -> Answer:
        """Decide one batch whose turn it is; `due` is its number in the schedule."""
        before = pickle.dumps((self.world, self.claims))
        answer = self._decide(batch["intents"], batch.get("sim_time"), due)
        if not answer.admitted or batch.get("dry_run"):
            self.world, self.claims = pickle.loads(before)
        stage = answer.refusals[0][1] if answer.refusals else ""
        is_final = due is not None or stage in {"staleness", "domain"} or answer.admitted
        if is_final and not answer.replayed and not batch.get("dry_run"):
            if due is not None:
                del self.schedule[due]
            self._remember(batch["intents"], answer)
        return answer

    def _decide(
        self, intents: Sequence[Mapping[str, Any]], sim_time: float | None, due: int | None
    ) -> Answer:
        stages: list[tuple[str, Callable[..., Any]]] = [
            ("structure", self._structure), ("agent", self._agent), ("dedup", self._dedup),
            ("staleness", self._staleness), ("quota", self._quota),
            ("backpressure", self._backpressure),
        ]  # fmt: skip
        at = None if sim_time is None or due is not None else round(sim_time * SECOND)
        ahead = 0 if at is None else max(0, at - self.now)
        for stage, judge in stages:
            if due is not None and stage not in {"agent", "staleness"}:
                continue
            found = judge(intents, is_due=due is not None, ahead=ahead)
            if isinstance(found, Answer):
                return found
            if found:
                return Answer(False, None, sorted((i, stage, code) for i, code in found))
        if due is None:
            self._charge(intents)
        if ahead:
            self.world["seq"] += 1
            self.world["scheduled"] += 1
            self.schedule[self.scheduled] = (at, {"intents": intents})
            return Answer(True, self.seq, scheduled=True)
        return self.apply(intents)

    # the stages

    def _structure(self, intents: Sequence[Mapping[str, Any]], **_: Any) -> Any:
        if not intents:
            return [(-1, "batch_empty")]
        for index, intent in enumerate(intents):
            if intent["kind"] not in KINDS:
                return [(index, "kind_unknown")]
            if intent["payload"].get("amount", 0).__class__ is not int:
                return [(index, "payload_invalid")]
        keys = [(intent["agent_id"], intent["req_id"]) for intent in intents]
        return [(i, "field_invalid") for i, key in enumerate(keys) if key in keys[:i]]

    def _agent(self, intents: Sequence[Mapping[str, Any]], **_: Any) -> Any:
        def why(agent: Mapping[str, Any] | None, kind: str) -> str | None:
            if agent is None:
                return "agent_unknown"
            if agent["suspended"]:
                return "agent_suspended"
            permitted = agent["permissions"] is None or kind in agent["permissions"]
            return None if permitted else "permission_denied"

        codes = [why(self.agents.get(intent["agent_id"]), intent["kind"]) for intent in intents]
        return [(index, code) for index, code in enumerate(codes) if code]

    def _dedup(self, intents: Sequence[Mapping[str, Any]], **_: Any) -> Any:
        known, too_old = {}, []
        for index, intent in enumerate(intents):
            agent, req_id = self.agents[intent["agent_id"]], intent["req_id"]
            name, _, number = req_id.rpartition(":")
            past = kept(agent, req_id)
            if past is not None and past["now"] >= self.now - self.limits["window_age_ns_max"]:
                known[index] = past
            elif name and (past or int(number) <= agent["forgotten"].get(name, -1)):
                too_old.append((index, "req_id_too_old"))
        if not known:
            return too_old
        content = content_of(intents)
        if len(known) < len(intents) or any(p["content"] != content for p in known.values()):
            return too_old + [(index, "req_id_reused") for index in known]
        answer, keys = known[0]["answer"], [key_of(intent) for intent in intents]
        code = answer["refusals"][0][2] if answer["refusals"] else ""
        then = [known[i]["contexts"][key] for i, key in enumerate(keys)]
        now = [intent["context_seq"] for intent in intents]
        if code == "context_from_future" and now != then:
            return []
        is_newer = now != then and all(a >= b for a, b in zip(now, then, strict=True))
        if code == "stale_context" and is_newer:
            return []
        refusals = [
            (None if key is None else keys.index(key), stage, code)
            for key, stage, code in answer["refusals"]
        ]
        seqs = tuple(
            known[i]["answer"]["seqs"][key] for i, key in enumerate(keys) if answer["seqs"]
        )
        ordered = sorted(refusals, key=lambda refusal: (refusal[0] is not None, refusal))
        return Answer(not refusals, answer["seq"], ordered, seqs, True, answer["scheduled"])

    def _staleness(self, intents: Sequence[Mapping[str, Any]], is_due: bool, **_: Any) -> Any:
        def why(intent: Mapping[str, Any]) -> str | None:
            kind, agent, context = intent["kind"], intent["agent_id"], intent["context_seq"]
            if not is_due and context > self.seq:
                return "context_from_future"
            if intent.get("valid_until") is not None and intent["valid_until"] * SECOND < self.now:
                return "expired"
            if not is_due and self.threshold is not None and self.seq - context > self.threshold:
                return "stale_context"
            read = (PURSES, agent) if kind == "Tend" else (STALLS, intent["payload"].get("stall"))
            changes = self.history.get(read, []) if kind in {"Tend", "Look"} else []
            stale = any(seq > context and by != agent for seq, by in changes)
            return "stale_context" if stale else None

        codes = map(why, intents)
        return [(index, code) for index, code in enumerate(codes) if code]

    def _buckets(self, intents: Sequence[Mapping[str, Any]]) -> Any:
        """List `(tats, bucket, quota, the positions that it binds)`."""
        positions: dict[Any, list[int]] = {}
        for index, intent in enumerate(intents):
            for kind in (intent["kind"], "*"):
                positions.setdefault((intent["agent_id"], kind), []).append(index)
        for (agent, kind), bound in positions.items():
            for quotas in (self.quotas, self.agents[agent]["quotas"]):
                if kind in quotas:
                    bucket = f"{kind} of {'all' if quotas is self.quotas else 'its own'}"
                    yield self.agents[agent]["tats"], bucket, quotas[kind], bound
        if self.world_quota is not None:
            yield self.tats, "world", self.world_quota, list(range(len(intents)))

    def _quota(self, intents: Sequence[Mapping[str, Any]], **_: Any) -> Any:
        refusals = []
        for tats, bucket, quota, bound in self._buckets(intents):
            interval, tat = ceil(SECOND / quota["rate"]), tats.get(bucket, 0)
            for _each in bound:  # one by one, as the algorithm is written down
                tat = max(tat, self.now)
                if tat - self.now > (quota["burst"] - 1) * interval:
                    is_never = len(bound) > quota["burst"]
                    code = "batch_exceeds_burst" if is_never else "quota_exceeded"
                    refusals += [(index, code) for index in bound]
                    break
                tat += interval
        return refusals

    def _charge(self, intents: Sequence[Mapping[str, Any]]) -> None:
        for tats, bucket, quota, bound in self._buckets(intents):
            cost = len(bound) * ceil(SECOND / quota["rate"])
            tats[bucket] = max(tats.get(bucket, 0), self.now) + cost

    def _backpressure(self, intents: Sequence[Mapping[str, Any]], ahead: int, **_: Any) -> Any:
        depth_max, everyone = self.executors.get(POST), range(len(intents))
        is_busy = depth_max is not None and len(self.outbox) >= depth_max
        busy = [i for i in everyone if is_busy and intents[i]["kind"] == "Send"]
        is_full = len(self.schedule) >= self.limits["schedule_batches_max"]
        if ahead and not busy and ahead > self.limits["schedule_ahead_ns_max"]:
            return [(None, "sim_time_too_far")]
        if ahead and not busy and is_full:
            return [(None, "schedule_full")]
        return [(index, "executor_busy") for index in busy]
