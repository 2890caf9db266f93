"""The world that the reference model decides in: plain dicts, and rules that write into them.

The author and time of every change are kept: no stamps, no tombstones. Nothing is undone here;
the model copies the whole world and restores the copy.
"""

import json
import pickle
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from tests.kernel.reference.fairground import (
    BANK,
    CLOCK,
    COINS,
    COINS_MAX,
    EARNED_MAX,
    POST,
    PURSES,
    STALLS,
)

SECOND = 10**9
Refusals: TypeAlias = Sequence[tuple[int | None, str, str]]
KINDS = ("Earn", "Pay", "Tend", "Take", "Drop", "Look", "Glance", "Send", "Burst")


class Answer(NamedTuple):
    """The promised parts of a verdict. Refusals are `(index, stage, code)`, seqs in batch order."""

    admitted: bool
    seq: int | None
    refusals: Refusals = ()
    seqs: tuple[int, ...] = ()
    replayed: bool = False
    scheduled: bool = False


class World:
    """A fairground. Times are nanoseconds; `limits` are those of the kernel.

    Attributes:
        world: All that is copied and put back.
        claims: Who took what in the present group.
        now: Simulated time.
    """

    def __init__(
        self,
        limits: Mapping[str, int],
        quotas: Mapping[str, Mapping[str, float]],
        world_quota: Mapping[str, float] | None = None,
        threshold: int | None = None,
    ) -> None:
        self.limits, self.quotas, self.threshold = limits, quotas, threshold
        self.world_quota, self.now, self.claims = world_quota, 0, dict[str, str]()
        state = {PURSES: {BANK: {"coins": COINS}}, CLOCK: {"clock": {"ticks": 0}}, STALLS: {}}
        self.world: dict[str, Any] = {
            "seq": 1, "state": state, "history": {}, "agents": {}, "executors": {}, "outbox": {},
            "schedule": {}, "scheduled": 0, "recency": [], "tats": {},
        }  # fmt: skip

    def __getattr__(self, name: str) -> Any:
        return self.world[name]

    # what is no batch

    def register(
        self, agent: str, permissions: Iterable[str] | None, cap: int, quotas: Mapping[str, Any]
    ) -> None:
        self.agents[agent] = {
            "permissions": permissions, "cap": cap, "quotas": quotas, "suspended": False,
            "tats": {}, "window": [], "forgotten": {},
        }  # fmt: skip
        self.world["seq"] += 1
        self._create(PURSES, agent, {"coins": 0, "mail": 0}, agent)

    def remove(self, agent: str) -> None:
        self.world["seq"] += 1
        self._move(agent, BANK, self.state[PURSES][agent]["coins"], agent)
        self._delete(PURSES, agent, agent)
        del self.agents[agent]
        self.world["recency"] = [other for other in self.recency if other != agent]

    def change(self, agent: str, what: str, value: Any) -> None:
        self.world["seq"] += 1
        self.agents[agent][what] = value

    def change_executor(self, kind: str, depth_max: int | None) -> None:
        if self.executors.get(kind) != depth_max:
            self.world["seq"] += 1
        self.executors[kind] = depth_max

    def tick(self) -> None:
        self.world["seq"] += 1
        self._put(CLOCK, "clock", "ticks", self.state[CLOCK]["clock"]["ticks"] + 1, "system")

    def settle(self, key: tuple[int, int]) -> bool:
        if key not in self.outbox:
            return False
        self.world["seq"] += 1
        agent = self.outbox.pop(key)
        if agent in self.state[PURSES]:
            self._put(PURSES, agent, "mail", self.state[PURSES][agent]["mail"] + 1, "system")
        return True

    # batches

    def apply(self, intents: Sequence[Mapping[str, Any]]) -> Answer:
        """Stage 7: the rules in order, each undone if it refuses; then the invariants."""
        order = sorted(range(len(intents)), key=lambda i: (-intents[i]["priority"], i))
        seqs: dict[int, int] = {}
        refusals: list[tuple[int | None, str, str]] = []
        letters: list[tuple[int, str]] = []
        for position in order:
            self.world["seq"] += 1
            seqs[position] = self.seq
            before = pickle.dumps((self.world, self.claims))
            code = self._rule(intents[position], letters)
            if code is not None:
                seq = self.seq
                self.world, self.claims = pickle.loads(before)
                self.world["seq"] = seq
                refusals.append((position, "domain", code))
        if refusals:
            return Answer(False, None, refusals)
        rich = [o for o, p in self.state[PURSES].items() if o != BANK and p["coins"] > COINS_MAX]
        if len(letters) > self.limits["effects_per_batch_max"]:
            rich = ["too many effects"]
        if rich:
            return Answer(False, None, [(None, "domain", "invariant_violated")] * len(rich))
        for k, (seq, agent) in enumerate(letters):
            self.outbox[seq, k] = agent
        return Answer(True, self.seq, seqs=tuple(seqs[i] for i in range(len(intents))))

    def _rule(  # noqa: C901, PLR0912  # a line for each kind, and for each way to refuse it
        self, intent: Mapping[str, Any], letters: list[tuple[int, str]]
    ) -> str | None:
        me, payload, stall = intent["agent_id"], intent["payload"], intent["payload"].get("stall")
        match intent["kind"]:
            case "Earn":
                self._move(BANK, me, min(payload["amount"], EARNED_MAX), me)
            case "Pay" if payload["to"] not in self.state[PURSES]:
                return "fair.nobody"
            case "Pay" if (
                self.state[PURSES][me]["coins"] < payload["amount"] and payload["to"] != me
            ):
                return "fair.poor"
            case "Pay":
                self._move(me, payload["to"], payload["amount"], me)
            case "Take" if self.claims.setdefault(stall, me) != me:
                return "conflict"
            case "Take":
                if stall not in self.state[STALLS]:
                    self._create(STALLS, stall, {}, me)
                self._put(STALLS, stall, "holder", me, me)
            case "Drop" if stall not in self.state[STALLS]:
                return "fair.missing"
            case "Drop":
                self._delete(STALLS, stall, me)
            case "Tend":
                self._put(PURSES, me, "tended", self.seq, me)
            case "Look" | "Glance":
                self._put(PURSES, me, "seen", self.seq, me)
            case "Send" if payload["count"] and self.executors.get(POST) is None:
                return "tool_unregistered"
            case "Send":
                letters += [(self.seq, me)] * payload["count"]
            case _:
                return "rule_error"
        return None

    # the state

    def _put(self, collection: str, entity: str, field: str, value: Any, by: str) -> None:
        self.state[collection][entity][field] = value
        self.history.setdefault((collection, entity), []).append((self.seq, by))

    def _move(self, giver: str, taker: str, amount: int, by: str) -> None:
        for who, change in ((giver, -amount), (taker, amount)):
            self._put(PURSES, who, "coins", self.state[PURSES][who]["coins"] + change, by)

    def _create(self, collection: str, entity: str, fields: dict[str, Any], by: str) -> None:
        self.state[collection][entity] = fields
        for changed in (entity, None):
            self.history.setdefault((collection, changed), []).append((self.seq, by))

    def _delete(self, collection: str, entity: str, by: str) -> None:
        del self.state[collection][entity]
        for changed in (entity, None):
            self.history.setdefault((collection, changed), []).append((self.seq, by))

    # the windows

    def _remember(self, intents: Sequence[Mapping[str, Any]], answer: Answer) -> None:
        keys = [key_of(intent) for intent in intents]
        refusals = [(None if i is None else keys[i], s, code) for i, s, code in answer.refusals]
        seqs = dict(zip(keys, answer.seqs, strict=True)) if answer.seqs else {}
        told = {**answer._asdict(), "refusals": refusals, "seqs": seqs}
        contexts = {key_of(intent): intent["context_seq"] for intent in intents}
        for name in dict.fromkeys(agent for agent, _ in keys if agent in self.agents):
            ids = [req_id for agent, req_id in keys if agent == name]
            self.agents[name]["window"].append(
                {"content": content_of(intents), "now": self.now, "ids": ids, "answer": told,
                 "contexts": contexts}
            )  # fmt: skip
            self._evict(name)

    def _evict(self, name: str) -> None:
        """The latest ids stay, as many as may; an answer leaves with all its ids."""
        window, limits = self.agents[name]["window"], self.limits
        while (
            sum(len(past["ids"]) for past in window[1:]) >= limits["window_ids_max"]
            or window[0]["now"] < self.now - limits["window_age_ns_max"]
        ):
            self._forget_oldest(name)
        self.world["recency"] = [other for other in self.recency if other != name] + [name]
        while sum(
            len(past["ids"]) for agent in self.agents.values() for past in agent["window"]
        ) > limits["dedup_entries_max"] and (len(self.recency) > 1 or len(window) > 1):
            least_recent = self.recency[0]
            self._forget_oldest(least_recent)
            if not self.agents[least_recent]["window"]:
                self.recency.pop(0)

    def _forget_oldest(self, name: str) -> None:
        forgotten = self.agents[name]["forgotten"]
        for req_id in self.agents[name]["window"].pop(0)["ids"]:
            sequence, _, number = req_id.rpartition(":")
            if sequence:
                forgotten[sequence] = max(forgotten.get(sequence, -1), int(number))

    def verdict_of(self, name: str, req_id: str) -> Answer | None:
        """Return the remembered answer to a request, with the seqs of the agent's ids."""
        past = kept(self.agents[name], req_id) if name in self.agents else None
        if past is None:
            return None
        told = past["answer"]
        seqs = tuple(told["seqs"][name, i] for i in past["ids"] if told["seqs"])
        refusals: Refusals = [(None, stage, code) for _, stage, code in told["refusals"]]
        return Answer(told["admitted"], told["seq"], refusals, seqs, True, told["scheduled"])


def key_of(intent: Mapping[str, Any]) -> tuple[str, str]:
    return intent["agent_id"], intent["req_id"]


def kept(agent: Mapping[str, Any], req_id: str) -> Any:
    """Find the latest answer in which an id stands."""
    return next((past for past in reversed(agent["window"]) if req_id in past["ids"]), None)


def content_of(intents: Sequence[Mapping[str, Any]]) -> list[str]:
    """The parts that make two batches the same: agent, id, content and priority, in any order."""
    parts = ("agent_id", "req_id", "kind", "payload", "priority")
    return sorted(
        json.dumps([intent[part] for part in parts], sort_keys=True) for intent in intents
    )
