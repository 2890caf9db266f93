"""Random lives of a world, run twice: its groups decided together, and batch by batch.

A life is drawn from a seed: a configuration, agents, and groups of batches of every sort - plain
and malformed, repeated, stale, of several intents, dry, scheduled, in conflict, and with rules that
raise or make what no record can hold. `run_life` compares the two worlds after every group.
"""

import copy
import random
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from pydantic import ConfigDict, JsonValue
from typing_extensions import TypedDict

from placet.domains.world import World
from placet.kernel import Kernel, RecordList
from placet.kernel.log.replay import folded
from placet.kernel.log.snapshot import world_digest
from placet.kernel.log.verify import Verifier
from placet.kernel.plugin.domain import Domain, Kind, RuleRefusal, conflict, refuse
from placet.kernel.state.draft import Draft
from placet.kernel.state.tree import State
from placet.schemas.codec import Json
from placet.schemas.config import KernelConfig
from placet.schemas.identity import Ref
from placet.schemas.intent import Intent
from placet.schemas.limits import Limits

Answer: TypeAlias = RuleRefusal | None
AGENTS = "odd.agents"
CELLS = "odd.cells"
THINGS = "odd.things"


class Numbers(TypedDict, total=False):
    """A closed payload."""

    __pydantic_config__ = ConfigDict(extra="forbid")  # type: ignore[misc]
    cell: int
    x: int
    other: str


class Manner(TypedDict, total=False):
    """What `Odd` does."""

    how: str
    n: float


def grab(draft: Draft, intent: Intent) -> Answer:
    cell = f"c{intent['payload'].get('cell', 0)}"
    winner = draft.claim(f"cell:{cell}")
    if winner is not None:
        return conflict(cell, winner)
    draft.put(CELLS, cell, "owner", intent["agent_id"])
    intent["payload"]["cell"] = 99  # a rule gets an intent of its own
    intent["agent_id"] = "nobody"
    return None


def take(draft: Draft, intent: Intent) -> Answer:
    cell = f"c{intent['payload'].get('cell', 0)}"
    winner = draft.claim(f"take:{cell}")
    if winner is not None:
        return conflict(cell, winner, at="/cell")
    if draft.draw("slip") < 0.1:
        return refuse("slipped", "slipped")
    draft.put(CELLS, cell, "taken", draft.agent_id)
    return None


def gamble(draft: Draft, intent: Intent) -> Answer:
    if draft.draw("luck") < 0.3:
        return refuse("unlucky", f"{draft.draw('luck'):.17f}", at="/x", retry_after=1.0)
    money = draft.get(AGENTS, draft.agent_id, "money", 0)
    draft.put(AGENTS, draft.agent_id, "money", money + draft.randint_below(10, "win"))
    return None


def give(draft: Draft, intent: Intent) -> Answer:
    other = intent["payload"].get("other", "a0")
    if not draft.exists(AGENTS, other):
        return refuse("nobody", f"there is no {other}")
    for name, gain in ((draft.agent_id, -1), (other, 1)):
        draft.put(AGENTS, name, "money", draft.get(AGENTS, name, "money", 0) + gain)
    return None


def work(draft: Draft, intent: Intent) -> Answer:
    draft.charge(intent["payload"].get("x", 0) * 100)
    draft.put(AGENTS, draft.agent_id, "worked", draft.sim_time)
    return None


def be_odd(draft: Draft, intent: Intent) -> object:  # noqa: C901, PLR0912  # one case each
    payload = intent["payload"]
    me, how = draft.agent_id, payload.get("how", "")
    puts: dict[str, Json] = {
        "surrogate": "\ud800",
        "huge": 2**70,
        "float": payload.get("n", 0.0),
        "list": [1, {"b": 2, "a": [3]}],
        "poor": -100,
    }
    match how:
        case "raise":
            raise RuntimeError("boom")
        case "raise_late":
            draft.put(AGENTS, me, "hue", 1)
            raise KeyError("late")
        case "return":
            return 17
        case "warn":
            draft.warn("w", "careful")
            draft.put(AGENTS, me, "hue", 2)
        case "answer":
            draft.answer({"a": [1, 2]})
        case "normalize":
            draft.normalize({"how": "normal"})
        case "create":
            draft.create(THINGS, f"t{draft.seq}", {"by": me})
        case "delete":
            for name in list(draft.ids(THINGS))[:1]:
                draft.delete(THINGS, name)
        case "effect" | "undeclared" | "unregistered":
            effects = {"effect": "mail", "undeclared": "fax", "unregistered": "nothing"}
            draft.emit(effects[how], {"to": me})
        case "many":
            for number in range(20):
                draft.emit("mail", {"n": number})
        case "twice":
            draft.put(AGENTS, me, "hue", 4)
            draft.put(AGENTS, me, "hue", 5)
        case "other":
            draft.put(AGENTS, "a1", "hue", 6)
        case "field":
            draft.put(AGENTS, me, "\ud800", 6)
        case "claim":
            draft.claim("k")
        case "pin":
            draft.pin_draws(f"a key of {me}")
            draft.put(AGENTS, me, "hue", draft.randint_below(99, "hue"))
        case "check":
            draft.check_changes(lambda made: refuse("odd", "even") if draft.seq % 2 else None)
            draft.put(AGENTS, me, "hue", 7)
        case "read":
            pass
        case _ if how in puts:
            draft.put(AGENTS, me, "money" if how == "poor" else how, puts[how])
        case _:
            return refuse("odd", "what?", x=1)
    return None


def look(draft: Draft, intent: Intent) -> Answer:
    if draft.draw("x") < 0.1:
        draft.put(AGENTS, draft.agent_id, "hue", 9)
    return None


def keep(draft: Draft, intent: Intent) -> Answer:
    draft.put(AGENTS, draft.agent_id, "free", intent["payload"])
    return None


def bear(draft: Draft, intent: Intent) -> Answer:
    """Register an agent, as one of a cohort or of none."""
    cohort = "kids" if intent["payload"].get("x") else None
    draft.register(f"k{intent['payload'].get('cell', 0)}", cohort, position=[1, 1])
    return None


def bury(draft: Draft, intent: Intent) -> Answer:
    draft.remove(f"k{intent['payload'].get('cell', 0)}")
    return None


def cells_read(intent: Mapping[str, Any]) -> list[tuple[str, str | None]]:
    cell = intent["payload"].get("cell", 0)
    if cell == 7:
        raise ValueError("footprint")
    return [(CELLS, f"c{cell}"), (THINGS, None)]


class Odd(Domain):
    """A domain whose rules do everything that a rule may do, and more."""

    name, version = "odd", "1"
    kinds = (
        Kind("Grab", Numbers, grab, reads=cells_read),
        Kind("Take", Numbers, take),
        Kind("Gamble", Numbers, gamble, reads_self=AGENTS),
        Kind("Give", Numbers, give),
        Kind("Work", Numbers, work),
        Kind("Odd", Manner, be_odd, effects=("mail",)),  # type: ignore[arg-type]  # not a rule's
        Kind("Look", Numbers, look, risk="read"),
        Kind("Free", dict[str, JsonValue], keep, reads=cells_read, when_stale="revalidate"),
        Kind("Bear", Numbers, bear),
        Kind("Bury", Numbers, bury),
    )

    def on_open(self, draft: Draft) -> None:
        for cell in range(6):
            draft.create(CELLS, f"c{cell}", {"owner": None})

    def on_register(self, draft: Draft, agent_id: str, attributes: Mapping[str, Json]) -> None:
        draft.create(AGENTS, agent_id, {"money": 5})

    def on_remove(self, draft: Draft, agent_id: str) -> None:
        draft.delete(AGENTS, agent_id)

    def on_tick(self, draft: Draft, sim_time: float) -> None:
        draft.put(CELLS, "c0", "t", draft.draw("tick"))
        if draft.exists(AGENTS, "k0"):
            draft.remove("k0")
        elif draft.tick % 3 == 0:
            draft.register("k0", "kids", position=[2, 2])


class Solvent(Odd):
    """The same with an invariant."""

    def invariants(self, state: State, changed: Sequence[Ref]) -> Iterable[RuleRefusal]:
        for collection, entity in changed:
            if collection == AGENTS and entity and (state.get(AGENTS, entity, "money") or 0) < 0:
                yield refuse("poor", "no money", at="/money")


class Finished(Solvent):
    """The same with a hook for whole batches."""

    def on_batch(self, draft: Draft) -> None:
        if draft.previous_values():
            draft.put(CELLS, "c5", "last", draft.seq)


class Validator:
    """A host's own check, which refuses, and raises."""

    def validate_intent(self, intent: Intent, state: object) -> bool:
        if intent["payload"].get("x") == 6:
            raise RuntimeError("validator")
        return intent["payload"].get("x") != 5


HOWS = (
    *("raise", "raise_late", "return", "surrogate", "huge", "float", "list", "poor", "warn"),
    *("answer", "normalize", "create", "create", "delete", "effect", "undeclared", "field"),
    *("unregistered", "many", "twice", "other", "claim", "read", "pin", "check", "?"),
)


class Life:
    """One random life. `compare` says where the two worlds differ; None where they agree."""

    def __init__(self, seed: int) -> None:
        self.rng = rng = random.Random(seed)
        limits = Limits(
            window_ids_max=rng.choice([3, 8, 1024]),
            dedup_entries_max=rng.choice([12, 40, 10**6]),
            checkpoint_groups=rng.choice([2, 5, 1000]),
            window_age_ns_max=rng.choice([3 * 10**9, 600 * 10**9]),
            effects_per_batch_max=5,
            refusals_listed_max=3,
            tombstones_max=rng.choice([2, 100]),
            removed_agents_max=rng.choice([1, 100]),
            payload_bytes_max=2000,
            window_sequences_max=rng.choice([1, 8]),
            batch_intents_max=rng.choice([3, 512]),
            batch_work_max=rng.choice([600, 10_000]),
        )
        quotas: dict[str, Any] = {}
        if rng.random() < 0.6:
            quotas["Gamble"] = {"rate": rng.choice([0.5, 2]), "burst": rng.choice([1, 3])}
        if rng.random() < 0.4:
            quotas["Move"] = {"rate": 1, "burst": 2}
        if rng.random() < 0.2:
            quotas["*"] = {"rate": 3, "burst": 4}
        self.config = KernelConfig(
            seed=rng.randrange(100),
            staleness_threshold=rng.choice([None, None, 10, 60]),
            quotas=quotas,
            world_quota={"rate": 5, "burst": 9} if rng.random() < 0.15 else None,
            limits=limits,
        )
        self.odd = rng.choice([Odd, Odd, Solvent, Finished])
        self.validator = Validator() if rng.random() < 0.2 else None
        self.world: dict[str, Any] = {
            "bounds": [[0, 0, 0], [50, 50, 50]],
            "max_step": rng.choice([None, 20]),
            "cooldowns": {"Speak": 2.0} if rng.random() < 0.5 else None,
            "objects": {"lamp": {"position": [1, 1], "portable": True}},
        }
        self.agents = rng.randrange(2, 9)
        self.number = 0
        self.past: list[Any] = []
        self.logs = (RecordList(), RecordList())
        self.faults: tuple[list[Any], list[Any]] = ([], [])
        self.codes: Counter[str] = Counter()
        registration = rng.randrange(10**9)
        executors = rng.random() < 0.7, rng.choice([1, 50])
        self.kernels = [self._open(side) for side in (0, 1)]
        for kernel in self.kernels:
            self._begin(kernel, random.Random(registration), *executors)

    def _open(self, side: int) -> Kernel:
        log, faults = self.logs[side], self.faults[side]
        kernel = Kernel(
            [World(**self.world), self.odd()],
            self.config,
            effect_validator=self.validator,
            history=list(log),
            sink=log,
        )
        kernel.rules.on_fault = lambda where, error: faults.append((where, type(error)))
        kernel.joins_batches = side == 0
        return kernel

    def _begin(self, kernel: Kernel, rng: random.Random, has_executors: bool, depth: int) -> None:
        if has_executors:
            for effect in ("mail", "fax"):
                kernel.change_executor(effect, depth)
        for number in range(self.agents):
            kernel.register_agent(
                f"a{number}",
                position=[number, 0],
                permissions=rng.choice([None, None, None, {"Move", "Gamble", "Odd"}]),
                owner=rng.choice([None, None, "boss"]),
                priority_max=rng.choice([100, 100, 20]),
                quotas=rng.choice([None, None, None, {"Odd": {"rate": 1, "burst": 2}}]),
            )

    # batches

    def intent(self) -> Json:
        rng, kernel = self.rng, self.kernels[0]
        self.number += 1
        kind = rng.choice(
            ["Move"] * 6
            + ["Gamble"] * 3
            + ["Grab", "Take"] * 3
            + ["Odd"] * 4
            + ["Give", "Work", "Look", "Speak", "Interact", "Free", "Custom"]
            + ["Bear", "Bear", "Bury"]
        )
        payload: Any = {
            "Move": {"to": [rng.randrange(60), rng.choice([1.5, 2, -0.0])]},
            "Gamble": {"x": rng.randrange(8)},
            "Grab": {"cell": rng.randrange(8)},
            "Take": {"cell": rng.randrange(6)},
            "Give": {"other": f"a{rng.randrange(self.agents + 1)}"},
            "Work": {"x": rng.randrange(9)},
            "Odd": {"how": rng.choice(HOWS), "n": rng.choice([1.0, 1e300, -3.5])},
            "Look": {"x": 1},
            "Speak": {"text": "hi", "channel": rng.choice(["public", "team"])},
            "Interact": {
                "target_id": rng.choice(["lamp", "a1", "zz"]),
                "interaction_type": rng.choice(["examine", "pickup", "drop"]),
            },
            "Free": {"cell": 1, "z": [1, 2], "a": {"q": None}},
            "Custom": {"action": "x", "b": 2},
            "Bear": {"cell": rng.randrange(4), "x": rng.randrange(2)},
            "Bury": {"cell": rng.randrange(4)},
        }[kind]
        behind = rng.choice([0, 0, 0, 0, 1, 3, 15])
        n = self.number
        intent: dict[str, Json] = {
            "kind": kind,
            "payload": payload,
            "agent_id": rng.choice(
                [f"a{rng.randrange(self.agents)}"] * 5 + [f"k{rng.randrange(4)}"]
            ),
            "req_id": rng.choice(
                [f"s:{rng.randrange(40)}", f"s:{n}", f"q:{n}", f"f{n}", f"s:0{n}"]
            ),
            "context_seq": max(0, kernel.seq - behind) if rng.random() < 0.95 else kernel.seq + 2,
            "priority": rng.choice([10, 10, 10, 50, 0]),
            "schema_version": "1.0.0",
        }
        return self._spoiled(intent) if rng.random() < 0.12 else intent

    def _spoiled(self, intent: dict[str, Json]) -> Json:
        """Return the intent with something wrong or unusual."""
        rng, kernel = self.rng, self.kernels[0]
        bad_numbers = [float("nan"), float("inf"), 1e240, True, "1", 2**65]
        change: dict[str, Json] = rng.choice(
            [
                {"extra": 1},
                {"payload": {"nonsense": [1]}},
                {"req_id": rng.choice(["", "x" * 200, "a\nb", "\ud800", 7, "ok"])},
                {"agent_id": rng.choice(["ghost", "", 5, "a\x00", None])},
                {"kind": rng.choice(["Mov", "", 3, "Move"])},
                {"priority": rng.choice([-1, 101, True, 1.0, "1"])},
                {"context_seq": rng.choice([-1, 2**63, 2**80, True, 1.0])},
                {"schema_version": rng.choice(["1.1.0", "2.0.0", "x", 1])},
                {"valid_until": rng.choice([0.0, 1e9, None, kernel.sim_time])},
                {"kind": "Move", "payload": {"to": [rng.choice(bad_numbers), 1]}},
                {"kind": "Move", "payload": {"position": [1, 2]}},
                {"kind": "Free", "payload": {"t": "y" * rng.choice([1900, 2500])}},
                {"schema_version": "1.1.0", "novel": 3},
                {
                    "kind": "Free",
                    "payload": {"t": rng.choice(["\ud800", 2**70, 1e250, {1: 2}, (1, 2), {1, 2}])},
                },
            ]
        )
        if rng.random() < 0.1:
            return rng.choice([None, [], 7, "x", [intent]])
        if rng.random() < 0.1:
            del intent[rng.choice(list(intent))]
        return {**intent, **change}

    def batch(self) -> Json:
        rng, past = self.rng, self.past
        chance = rng.random()
        if chance < 0.12 and past:
            return rng.choice(past)
        if chance < 0.16 and past:
            known = rng.choice(past)
            if known and type(known[0]) is dict:
                field = rng.choice(["context_seq", "priority"])
                return [{**known[0], field: self.kernels[0].seq}, *known[1:]]
        intents = [self.intent()]
        if chance < 0.24:
            intents += [self.intent() for _ in range(rng.randrange(1, 3))]
        if chance < 0.27:
            return {"intents": intents, "dry_run": True}
        if chance < 0.31:
            later = self.kernels[0].sim_time + rng.choice([0, 0.5, 3])
            return {"intents": intents, "sim_time": later}
        if chance < 0.34:
            return intents[0]
        if chance < 0.35:
            return rng.choice([[], None, 5, {"intents": 3}, tuple(intents)])
        past.append(intents)
        return intents

    # the life

    def compare(self, groups: int) -> str | None:
        """Live a number of groups; return the first difference between the two worlds."""
        for _ in range(groups):
            difference = self._group() or self._differences()
            if difference is not None:
                return difference
            self._between()
        return self._folds()

    def _group(self) -> str | None:
        rng = self.rng
        batches = [self.batch() for _ in range(rng.choice([1, 2, 5, 12, 40]))]
        seconds = rng.choice([0, 0, 0.3, 1.0, 5.0])
        submitter = rng.choice(["operator"] * 4 + ["boss", "a1"])
        way = rng.random()
        answers = []
        for kernel in self.kernels:
            given = copy.deepcopy(batches)
            if way < 0.5:
                verdicts = kernel.step(seconds, given)
            elif way < 0.75:
                now = kernel.sim_time + seconds
                verdicts = kernel.decide_group(given, now, submitter=submitter)
            else:  # as the actors do: checked one by one, and decided together
                verdicts = self._as_actors(kernel, given, seconds, submitter)
            answers.append([verdict.as_dict() for verdict in verdicts])
            if kernel is self.kernels[0]:
                for verdict in verdicts:
                    self.codes.update(verdict.codes or (_outcome(verdict),))
        for place, (first, second) in enumerate(zip(*answers, strict=True)):
            if first != second:
                return f"batch {place} {batches[place]!r}:\n{first}\n{second}"
        return None

    def _as_actors(
        self, kernel: Kernel, batches: Sequence[Json], seconds: float, submitter: str
    ) -> list[Any]:
        now_ns = round((kernel.sim_time + seconds) * 10**9)
        checked = [kernel.check(batch, submitter) for batch in batches]
        sound = [batch for batch in checked if hasattr(batch, "encoded")]
        decided = kernel.decide_checked(sound, now_ns)  # type: ignore[arg-type]
        verdicts = {id(batch): verdict for batch, verdict in decided.answers}
        return [verdicts.get(id(batch), batch) for batch in checked]

    def _differences(self) -> str | None:
        first, second = self.kernels
        if first.digest() != second.digest():
            return "the state digests differ"
        if first.world_digest() != second.world_digest():
            return "the ledgers differ"
        if self.faults[0] != self.faults[1]:
            return f"the faults differ: {self.faults[0][-3:]} and {self.faults[1][-3:]}"
        for _ in range(5):
            agent_id = f"a{self.rng.randrange(self.agents)}"
            req_id = self.rng.choice([f"s:{self.rng.randrange(40)}", f"f{self.number}"])
            later = [kernel.verdict_of(agent_id, req_id) for kernel in self.kernels]
            told = [verdict and verdict.as_dict() for verdict in later]
            if told[0] != told[1]:
                return f"the later answers to {agent_id} {req_id} differ: {told}"
        return None

    def _between(self) -> None:
        """Suspend an agent, settle an effect, or kill both worlds and open them from their logs."""
        rng, chance = self.rng, self.rng.random()
        if chance < 0.15:
            who = f"a{rng.randrange(self.agents)}"
            change = rng.choice(["suspended", "resumed", "resumed", "resumed"])
            for kernel in self.kernels:
                kernel.change_agent(who, change)
        elif chance < 0.25:
            self.kernels = [self._open(side) for side in (0, 1)]
        elif chance < 0.35:
            for kernel in self.kernels:
                kernel.restore(kernel.snapshot())

    def _folds(self) -> str | None:
        for kernel, log in zip(self.kernels, self.logs, strict=True):
            past = folded(log)
            if world_digest(past.state, past.ledger).hex() != kernel.world_digest():
                return "a fold of the log gives another world"
            if self.validator is None:
                again = Verifier([World(**self.world), self.odd()])
                for record in log:
                    again.apply(record)
                if world_digest(again.state, again.ledger).hex() != kernel.world_digest():
                    return "re-executed, the log gives another world"
        return None


def _outcome(verdict: Any) -> str:
    if verdict.replayed:
        return "replayed"
    return "scheduled" if verdict.scheduled else "admitted"
