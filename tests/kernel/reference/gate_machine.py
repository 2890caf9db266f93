"""A hypothesis state machine that runs the kernel and the reference model side by side.

After each step are compared: verdicts, state, sequence number, outbox and schedule, what is
remembered of every request, and the digests with those of a fold of the log.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from placet.kernel import Kernel, KernelConfig
from placet.kernel.decide.batches import Answer as Decided
from placet.kernel.log.replay import Replayer
from placet.kernel.log.snapshot import world_digest
from placet.schemas.batch import CheckedBatch
from placet.schemas.effect import EffectKey, Settlement
from placet.schemas.limits import Limits
from placet.schemas.verdict import Verdict
from tests.kernel.builders import restore
from tests.kernel.reference.fair_batches import AGENTS, a_batch_of
from tests.kernel.reference.fairground import POST, Fairground
from tests.kernel.reference.reference_model import Model
from tests.kernel.reference.reference_world import SECOND, Answer

CHANGES = ["resumed"] * 3 + ["suspended", "removed"]

# Every bound is near, so that short lives pass it.
LIMITS = {
    "window_ids_max": 4,
    "window_age_ns_max": 6 * SECOND,
    "dedup_entries_max": 9,
    "schedule_batches_max": 3,
    "schedule_ahead_ns_max": 9 * SECOND,
    "effects_per_batch_max": 3,
    "checkpoint_groups": 3,
}
SETTINGS: dict[str, dict[str, Any]] = {
    "open": {"quotas": {}},
    "metered": {
        "quotas": {"Earn": {"rate": 0.7, "burst": 3}, "*": {"rate": 3, "burst": 5}},
        "world_quota": {"rate": 5, "burst": 9},
    },
    "strict": {"quotas": {"Pay": {"rate": 1, "burst": 2}}, "staleness_threshold": 4},
}

_POOL: dict[str, tuple[list[bytes], list[Kernel], bytes]] = {}


def kernels_of(setting: str) -> tuple[list[bytes], list[Kernel]]:
    """Return two kernels with one log; compiled kernels are reused."""
    if setting not in _POOL:
        log: list[bytes] = []
        config = KernelConfig(limits=Limits(**LIMITS), seed=11, **SETTINGS[setting])
        first = Kernel(Fairground(), config, sink=log.append)
        start = first.snapshot()
        _POOL[setting] = (log, [first, Kernel(Fairground(), config)], start)
    log, kernels, start = _POOL[setting]
    for kernel in kernels:
        kernel._journal.sink = None
        kernel.restore(start)
    del log[2:]
    kernels[0]._journal.sink = log.append
    return log, list(kernels)


def promised(verdict: Verdict) -> Answer:
    """Return the promised parts of a verdict."""
    refusals = sorted(((r.index, r.stage.value, r.code) for r in verdict.refusals), key=_none_first)
    seqs = tuple(result.seq for result in verdict.results if result.seq is not None)
    flags = (verdict.replayed, verdict.scheduled)
    return Answer(verdict.admitted, verdict.seq, tuple(refusals), seqs, *flags)


def expected(answer: Answer) -> Answer:
    return answer._replace(refusals=tuple(sorted(answer.refusals, key=_none_first)))


def _none_first(refusal: tuple[int | None, str, str]) -> tuple[Any, ...]:
    return (refusal[0] is not None, *refusal)


BATCHES = st.builds(a_batch_of, st.integers(0, 2**32))
"""Drawn by seed, which is quick; a failing life is made short by its steps."""
GROUPS = st.lists(BATCHES, min_size=1, max_size=4)


def _in_turn(answers: Sequence[Decided]) -> list[tuple[object, ...]]:
    return [(batch.agents, batch.due_of, promised(verdict)) for batch, verdict in answers]


class GateMachine(RuleBasedStateMachine):
    """A kernel and the model, step by step."""

    @initialize(setting=st.sampled_from(sorted(SETTINGS)))
    def begin(self, setting: str) -> None:
        self.log, self.kernels = kernels_of(setting)
        chosen = SETTINGS[setting]
        self.setting = setting
        self.model = Model(
            LIMITS,
            chosen["quotas"],
            chosen.get("world_quota"),
            chosen.get("staleness_threshold"),
        )
        self.now = 0.0
        self.past: list[dict[str, Any]] = []
        self.asked: dict[tuple[str, str], None] = {}
        for agent in AGENTS[:3]:
            self.register(agent, None, 100, {})
        self.change_executor(2)

    @property
    def kernel(self) -> Kernel:
        return self.kernels[0]

    # control

    @rule(
        agent=st.sampled_from(AGENTS),
        permissions=st.sampled_from([None, None, ("Earn", "Pay", "Look")]),
        cap=st.sampled_from([100, 20]),
        quotas=st.sampled_from([{}, {}, {"Earn": {"rate": 0.5, "burst": 2}}]),
    )
    def register(self, agent: str, permissions: Any, cap: int, quotas: Mapping[str, Any]) -> None:
        if agent in self.model.agents:
            return
        self.kernel.register_agent(agent, permissions=permissions, priority_max=cap, quotas=quotas)
        self.model.register(agent, permissions, cap, quotas)

    @rule(agent=st.sampled_from(AGENTS), what=st.sampled_from(CHANGES))
    def change(self, agent: str, what: str) -> None:
        if agent not in self.model.agents:
            return
        self.kernel.change_agent(agent, what)
        if what == "removed":
            self.model.remove(agent)
        else:
            self.model.change(agent, "suspended", what == "suspended")

    @rule(
        agent=st.sampled_from(AGENTS),
        permissions=st.sampled_from([None, None, None, (), ("Earn", "Send")]),
    )
    def permit(self, agent: str, permissions: Iterable[str] | None) -> None:
        if agent in self.model.agents:
            self.kernel.set_agent_permissions(agent, permissions)
            self.model.change(agent, "permissions", permissions)

    @rule(depth_max=st.sampled_from([None, 1, 2, 9]))
    def change_executor(self, depth_max: int | None) -> None:
        self.kernel.change_executor(POST, depth_max)
        self.model.change_executor(POST, depth_max)

    @rule(seconds=st.sampled_from([0, 0.5, 2]))
    def tick(self, seconds: float) -> None:
        self._pass(seconds)
        self.kernel.tick(self.now)
        self.model.tick()

    @rule(data=st.data(), succeeded=st.booleans())
    def settle(self, data: st.DataObject, succeeded: bool) -> None:
        keys = sorted({*self.model.outbox, (3, 0)})
        key = data.draw(st.sampled_from(keys))
        settlement = Settlement(EffectKey("world", *key), succeeded=succeeded, output="done")
        assert self.kernel.settle(settlement, self.now) == self.model.settle(key)

    # batches

    @rule(seconds=st.sampled_from([0, 0, 0.5, 1, 3]), batches=GROUPS)
    def decide(self, seconds: float, batches: list[dict[str, Any]]) -> None:
        self._pass(seconds)
        self._decide([self._resolved(batch) for batch in batches])

    @rule(seconds=st.sampled_from([0, 1, 2]), batches=GROUPS)
    def decide_more(self, seconds: float, batches: list[dict[str, Any]]) -> None:
        """Batches come more often than anything else."""
        self.decide(seconds, batches)

    @precondition(lambda self: self.past)
    @rule(
        seconds=st.sampled_from([0, 0.5, 4]),
        which=st.integers(0, 30),
        how=st.sampled_from(["same", "same", "turned", "fresh", "other", "part"]),
    )
    def repeat(self, seconds: float, which: int, how: str) -> None:
        self._pass(seconds)
        batch = self.past[-1 - which % len(self.past)]
        intents = batch["intents"]
        match how:
            case "turned":
                intents = intents[::-1]
            case "fresh":
                intents = [{**one, "context_seq": self.kernel.seq} for one in intents]
            case "other":
                intents = [*intents[:-1], {**intents[-1], "priority": 11}]
            case "part":
                intents = intents[:-1] or intents
            case _:
                pass
        self._decide([{**batch, "intents": intents}])

    @rule(seconds=st.sampled_from([0, 1]), batch=BATCHES)
    def decide_dry_and_then_really(self, seconds: float, batch: dict[str, Any]) -> None:
        """A dry run changes nothing and has the verdict of the batch."""
        self._pass(seconds)
        self._decide([])  # what is due is decided by whoever comes first, a dry run or not
        real = {**self._resolved(batch), "dry_run": False}
        before = (self.kernel.world_digest(), self.kernel.record_count)
        (dry,) = self.kernel.decide_group([{**real, "dry_run": True}], self.now)
        assert (self.kernel.world_digest(), self.kernel.record_count) == before
        assert dry.dry_run
        (answer,) = self._decide([real])
        assert promised(dry) == answer

    @rule(batches=st.lists(BATCHES, min_size=3, max_size=5), data=st.data())
    def decide_in_another_order_of_arrival(
        self, batches: list[dict[str, Any]], data: st.DataObject
    ) -> None:
        """The first agent of a group is drawn, independent of arrival."""
        one_each: dict[str, dict[str, Any]] = {}
        for batch in map(self._resolved, batches):
            agents = {intent["agent_id"] for intent in batch["intents"]}
            if len(agents) == 1 and agents <= self.model.agents.keys():
                one_each.setdefault(agents.pop(), batch)
        group, other = list(one_each.values()), self.kernels[1]
        other.restore(self.kernel.snapshot())
        turned = [other.check(batch) for batch in data.draw(st.permutations(group))]
        sound = [batch for batch in turned if isinstance(batch, CheckedBatch)]
        decided = other.decide_checked(sound, round(self.now * SECOND), release_intents=True)
        self._decide(group)
        assert _in_turn(decided.answers) == _in_turn(self.latest)
        assert other.digest() == self.kernel.digest()

    # going on elsewhere

    @rule()
    def go_on_from_a_snapshot(self) -> None:
        this, other = self.kernels
        other.restore(this.snapshot())
        other._journal.sink, this._journal.sink = self.log.append, None
        self.kernels = [other, this]

    @precondition(lambda self: len(self.log) > 5)
    @rule()
    def go_on_from_the_log(self) -> None:
        """Continue with a kernel opened from the log."""
        again = Kernel(Fairground(), self.kernel.config, history=self.log)
        assert again.world_digest() == self.kernel.world_digest()
        restore(self.kernel, again.snapshot())

    # what holds after each step

    @invariant()
    def the_worlds_are_the_same(self) -> None:
        kernel, model = self.kernel, self.model
        assert kernel.seq == model.seq
        state = {name: rows for name, rows in model.state.items() if rows}
        assert kernel.tree.as_dict() == state
        assert sorted(kernel.ledger.outbox) == sorted(model.outbox)
        assert sorted(kernel.ledger.scheduled) == sorted(model.schedule)

    @invariant()
    def what_is_remembered_is_the_same(self) -> None:
        for agent, req_id in self.asked:
            verdict = self.kernel.verdict_of(agent, req_id)
            answer = self.model.verdict_of(agent, req_id)
            if verdict is None or answer is None:
                assert verdict is None, (agent, req_id)
                assert answer is None, (agent, req_id)
                continue
            mine = promised(verdict)
            mine = mine._replace(refusals=[(None, stage, code) for _, stage, code in mine.refusals])
            assert expected(mine) == expected(answer)

    @invariant()
    def the_log_tells_the_same(self) -> None:
        replayer = Replayer()
        for data in self.log:
            replayer.apply(data)
        assert replayer.state.digest().hex() == self.kernel.digest()
        assert world_digest(replayer.state, replayer.ledger).hex() == self.kernel.world_digest()

    # helpers of the steps

    def _pass(self, seconds: float) -> None:
        self.now += seconds
        self.model.now = round(self.now * SECOND)

    def _resolved(self, batch: Mapping[str, Any]) -> dict[str, Any]:
        """Resolve the relative context seq and time of drawn intents."""
        intents = [
            {
                **{name: value for name, value in one.items() if name != "context_back"},
                "context_seq": max(0, self.kernel.seq - one["context_back"]),
            }
            for one in batch["intents"]
        ]
        resolved = {name: value for name, value in batch.items() if name != "later"}
        if "later" in batch:
            resolved["sim_time"] = self.now + batch["later"]
        return {**resolved, "intents": intents}

    def _decide(self, batches: Sequence[dict[str, Any]]) -> list[Answer]:
        kernel = self.kernel
        checked = [(raw, kernel.check(raw)) for raw in batches]
        sound = [batch for _, batch in checked if isinstance(batch, CheckedBatch)]
        self.latest = kernel.decide_checked(sound, round(self.now * SECOND)).answers
        return self._compare(self.latest, checked)

    def _compare(
        self,
        decided: Sequence[Decided],
        checked: Sequence[tuple[dict[str, Any], CheckedBatch | Verdict]],
    ) -> list[Answer]:
        """Hold a group's answers to the model's, in the kernel's order, which must be a legal one.

        Returns:
            The kernel's answers to the batches handed in, in the order of arrival.
        """
        answers = {}
        for raw, verdict in checked:
            if isinstance(verdict, Verdict):
                answer = self.model.decide(raw)
                assert set(verdict.codes) == {code for _, _, code in answer.refusals}
        due = self.model.due()
        raws = [self.model.schedule[number][1] for number in due]
        group: list[tuple[int | None, dict[str, Any]]] = [*zip(due, raws, strict=True)]
        group += [(None, raw) for raw, b in checked if isinstance(b, CheckedBatch)]
        order = self._order(decided, checked, due)
        self._check_order(order, group)
        self.model.claims = {}
        for place, (batch, verdict) in zip(order, decided, strict=True):
            number, raw = group[place]
            answer = expected(self.model.decide(raw, number))
            assert promised(verdict) == answer, raw
            self._check_results(verdict, raw, answer)
            if batch.due_of is None:
                answers[id(batch)] = answer
                self.past.append(raw)
                self.asked.update(
                    {(one["agent_id"], one["req_id"]): None for one in raw["intents"]}
                )
        return [answers[id(b)] if id(b) in answers else promised(b) for _, b in checked]  # type: ignore[arg-type]  # else a verdict

    @staticmethod
    def _order(
        decided: Sequence[Decided],
        checked: Sequence[tuple[dict[str, Any], CheckedBatch | Verdict]],
        due: Sequence[int],
    ) -> list[int]:
        """Return the order in which the kernel decided the group, as indices of arrival."""
        sound = [id(b) for _, b in checked if isinstance(b, CheckedBatch)]
        return [
            due.index(batch.due_of)
            if batch.due_of is not None
            else len(due) + sound.index(id(batch))
            for batch, _ in decided
        ]

    def _check_order(
        self, order: Sequence[int], group: Sequence[tuple[int | None, Mapping[str, Any]]]
    ) -> None:
        """Each agent's own first come first; then simulated time, then priority under its cap."""
        assert sorted(order) == list(range(len(group)))

        def agents(place: int) -> set[str]:
            return {intent["agent_id"] for intent in group[place][1]["intents"]}

        def key(place: int) -> tuple[int, int]:
            number, raw = group[place]
            caps = [self.model.agents.get(a, {"cap": 100})["cap"] for a in agents(place)]
            highest = max(intent["priority"] for intent in raw["intents"])
            at = self.model.now if number is None else self.model.schedule[number][0]
            return at, -min(highest, *caps)

        left = list(range(len(group)))
        for place in order:
            heads = [p for p in left if not any(agents(p) & agents(q) for q in left if q < p)]
            assert place in heads, "an agent's own order was not kept"
            assert key(place) == min(map(key, heads)), "a later time or a lower priority overtook"
            left.remove(place)

    @staticmethod
    def _check_results(verdict: Verdict, raw: Mapping[str, Any], answer: Answer) -> None:
        if answer.admitted and verdict.results:
            assert list(verdict.req_ids) == [one["req_id"] for one in raw["intents"]]
        if answer.admitted and not (answer.replayed or answer.scheduled):
            for result, one in zip(verdict.results, raw["intents"], strict=True):
                payload = dict(one["payload"])
                if one["kind"] == "Earn":
                    payload["amount"] = min(payload["amount"], 10)
                assert dict(result.normalized) == payload
