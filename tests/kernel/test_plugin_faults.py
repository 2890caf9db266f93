"""Faults of domains and validators are contained (G23): refused, reported, nothing is changed."""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest
from pydantic import BaseModel, field_validator

from placet.kernel import Domain, Draft, Kernel, KernelConfig, Kind, refuse
from placet.kernel.gate.domain_rules import RefusalRaised
from placet.kernel.ledger.ledger import Mark
from placet.kernel.log import snapshot as snapshots
from placet.kernel.log.divergence import DecisionMismatch
from placet.kernel.log.replay import folded
from placet.kernel.log.verify import Verifier
from placet.kernel.plugin.registry import Registry
from placet.schemas.codec import FrozenDict
from placet.schemas.effect import EffectKey, Settlement
from placet.schemas.errors import ValidationError
from placet.schemas.identity import Ref
from placet.schemas.intent import Intent
from placet.schemas.log.record import Settled, decode_record
from tests.kernel.builders import add, checked, intent, kernel_of, restore, reused, trace
from tests.kernel.domains import COUNTS, THINGS, Annex, Lab


def listened_to(kernel):
    """Return the list to which a kernel will report faults."""
    faults: list[tuple[str, str]] = []
    kernel.rules.on_fault = lambda where, error: faults.append((where, type(error).__name__))
    return faults


@pytest.mark.parametrize(
    ("how", "error"),
    [
        ("raise", "ZeroDivisionError"),
        ("nonsense", "TypeError"),
        ("object", "TypeError"),
        ("details", "InvalidJsonValue"),
        ("code", "TypeError"),
        ("retry", "TypeError"),
        ("warning", "TypeError"),
        ("name", "TypeError"),
        ("undeclared", "TypeError"),
        ("huge", "OverflowError"),
        ("surrogate", "UnicodeEncodeError"),
    ],
)
def test_a_raising_rule_refuses_its_batch_and_is_reported(how, error):
    kernel, _ = reused()
    faults = listened_to(kernel)
    before = kernel.tree.dump()
    verdict = kernel.decide([add("a"), intent("Fail", {"how": how}, "b")])
    assert verdict.codes == ("rule_error",)
    assert verdict.refusals[0].details["error"] == error
    assert [name for _, name in faults] == [error]
    assert kernel.tree.dump() == before
    assert kernel.decide(add("c")).admitted


def test_a_rule_may_set_retry_after():
    verdict = reused()[0].decide(intent("Fail", {"how": "refuse"}))
    assert (verdict.codes, verdict.refusals[0].retry_after) == (("lab.unwell",), 1.5)


def test_a_footprint_that_raises_refuses_its_batch():
    kernel, _ = reused()
    faults = listened_to(kernel)
    assert kernel.decide(add("first")).admitted
    before = kernel.tree.dump()
    verdict = kernel.decide([add("a"), intent("Look", {"thing": "raise"}, "b")])
    assert (verdict.codes, verdict.refusals[0].index) == (("rule_error",), 1)
    assert verdict.refusals[0].message == (
        "the footprint of Look raised RuntimeError; the batch changed nothing and the world goes "
        "on; report it to the domain's author"
    )
    assert faults == [("footprint of Look", "RuntimeError")]
    assert kernel.tree.dump() == before  # what was admitted before is not undone


def test_a_raising_visibility_policy_hides_everything():
    kernel, _ = reused(domain=Lab("may_see"))
    faults = listened_to(kernel)
    kernel.decide(intent("Put", {"thing": "a", "field": "f"}, agent_id="bob"))
    verdict = kernel.decide(intent("Look", {"thing": "a"}, context_seq=1))
    assert verdict.codes == ("rule_error",)
    assert verdict.refusals[0].changed == ()
    assert faults == [("footprint of Look", "RuntimeError")]


@pytest.mark.parametrize("fault", ["invariants", "nonsense_invariants"])
def test_a_raising_invariant_refuses_the_batch(fault):
    kernel, _ = reused(domain=Lab(fault))
    faults = listened_to(kernel)
    before = kernel.tree.dump()
    verdict = kernel.decide(add("a"))
    assert verdict.codes == ("rule_error",)
    assert verdict.refusals[0].index is None
    assert [where for where, _ in faults] == ["invariants of lab"]
    assert kernel.tree.dump() == before


class Rung(Domain):
    """A domain in any code of which an interrupt may arrive."""

    name, version = "rung", "1"

    def __init__(self) -> None:
        self.rings: dict[str, list[type[BaseException]]] = {}

        class Bell(BaseModel):
            loud: bool = False

            @field_validator("loud")
            @classmethod
            def sound(cls, value: bool) -> bool:
                self.ring("payload")
                return value

        def pull(draft: Draft, _intent: Intent) -> None:
            draft.create("rung.bells", f"bell {draft.seq}")
            self.ring("rule")

        def footprint(_intent: Intent) -> list[Ref]:
            self.ring("reads")
            return []

        self.kinds = (Kind("Ring", Bell, pull, reads=footprint),)

    def ring(self, where: str) -> None:
        if faults := self.rings.get(where):
            raise faults.pop(0)

    def on_batch(self, draft):
        self.ring("on_batch")

    def invariants(self, state, changed):
        self.ring("invariants")
        return ()


@pytest.mark.parametrize("where", ["payload", "reads", "rule", "on_batch", "invariants"])
def test_an_interrupt_is_not_a_plugin_fault(where):
    domain = Rung()
    kernel = kernel_of(domain)
    assert kernel.decide(intent("Ring", {"loud": True}, "first")).admitted
    before = trace(kernel)
    domain.rings = {where: [KeyboardInterrupt]}
    with pytest.raises(KeyboardInterrupt):
        kernel.decide(intent("Ring", {"loud": True}, "second"))
    assert trace(kernel) == before
    assert kernel.decide(intent("Ring", {"loud": True}, "second")).admitted


@pytest.mark.parametrize("faults", [[KeyboardInterrupt], [ValueError, KeyboardInterrupt]])
def test_a_due_batch_stays_due_after_an_interrupt_in_its_payload_validator(faults):
    domain = Rung()
    kernel = kernel_of(domain)
    later = {"intents": [intent("Ring", {"loud": True})], "sim_time": 5.0}
    assert kernel.decide(later, 1.0).scheduled
    domain.rings = {"payload": list(faults)}
    with pytest.raises(KeyboardInterrupt):
        kernel.decide_group([], 6.0)
    assert kernel.ledger.scheduled
    kernel.decide_group([], 6.0)
    assert not kernel.ledger.scheduled
    assert len(kernel.state["rung.bells"]) == 1


def test_invariants_check_the_whole_batch_and_get_its_changes():
    seen = []

    class Watching(Lab):
        def invariants(self, state, changed):
            seen.append(list(changed))
            return super().invariants(state, changed)

    kernel = kernel_of(Watching(ceiling=5))
    passing = [add("a", 9), intent("Take", {"amount": 8}, "b")]
    assert kernel.decide(passing).admitted  # in between there were 9
    assert seen == [[Ref(COUNTS, "alice")]]
    verdict = kernel.decide([add("c", 5), add("d", 9, agent_id="bob")])
    assert [refusal.at for refusal in verdict.refusals] == ["/alice", "/bob"]


def test_invariants_with_reads_are_checked_for_those_alone():
    seen = []

    class Watching(Lab):
        invariant_reads = (Ref(COUNTS, "alice"), Ref(THINGS, "alice"), Ref(COUNTS, "carl"))

        def invariants(self, state, changed):
            seen.append(list(changed))
            return super().invariants(state, changed)

    kernel = kernel_of(Watching(things=["alice", "carl"], ceiling=5))
    assert kernel.decide(add("a", 9, agent_id="bob")).admitted
    assert kernel.decide(intent("Remake", {"thing": "carl"}, "b")).admitted
    assert seen == []  # nothing that it watches has changed
    assert kernel.decide([add("c", agent_id="bob"), add("d")]).admitted
    assert seen == [[Ref(COUNTS, "alice")]]
    assert kernel.decide(add("e", 9)).codes == ("invariant_violated",)


def test_invariant_reads_must_name_entities():
    class Watching(Lab):
        invariant_reads = (Ref(COUNTS),)

        def invariants(self, state, changed):
            return ()

    with pytest.raises(ValueError, match=r"watch 'lab\.counts' as a whole; name its entities"):
        Registry([Watching()])


@pytest.mark.parametrize(
    ("fault", "where"),
    [("on_tick", "on_tick of lab"), ("emit_on_tick", "on_tick"), ("huge_on_tick", "on_tick")],
)
def test_a_raising_tick_advances_time_and_nothing_else(fault, where):
    kernel, log = reused(domain=Lab(fault))
    faults = listened_to(kernel)
    digest, seq = kernel.digest(), kernel.seq
    kernel.tick(3.0)
    assert (kernel.digest(), kernel.seq, kernel.sim_time) == (digest, seq + 1, 3.0)
    assert [where for where, _ in faults] == [where]
    assert kernel.open_effects() == []
    assert folded(log).ledger.now_ns == 3 * 10**9


def test_a_raising_on_settle_makes_the_effect_a_dead_letter_that_keeps_its_outcome():
    lab = Lab("on_settle")
    kernel, log = reused(domain=lab)
    faults = listened_to(kernel)
    kernel.decide(intent("Mail", {"count": 1}))
    digest = kernel.digest()
    (effect,) = kernel.open_effects()
    paid = Settlement(effect.key, succeeded=True, output={"paid": [7]})
    assert kernel.settle(paid)
    assert (kernel.digest(), kernel.open_effects()) == (digest, [effect])
    assert [where for where, _ in faults] == ["on_settle of lab"]
    before = trace(kernel)
    assert not kernel.settle(paid)  # the outcome is recorded once
    with pytest.raises(ValidationError, match="on_settle of lab raised RuntimeError: on_settle"):
        kernel.settle(paid, again=True)
    assert trace(kernel) == before
    place, output = (effect.key.seq, effect.key.effect_index), FrozenDict({"paid": (7,)})
    for ledger in (kernel.ledger, folded(log).ledger):
        assert ledger.marks == {place: Mark("dead", "RuntimeError: on_settle raises", True, output)}
        assert ledger.outbox_depth["mail"] == 1
    lab.faults.clear()
    assert kernel.settle(paid, again=True)
    assert kernel.state["lab.letters"][str(effect.key)]["output"] == {"paid": (7,)}
    assert kernel.open_effects() == []
    assert not kernel.settle(paid, again=True)
    again = folded(log)
    assert (again.ledger.marks, again.state.digest().hex()) == ({}, kernel.digest())


def test_a_dead_letter_is_in_snapshots_and_digests_and_is_verified():
    class Fragile(Lab):
        """Its on_settle raises until an operator has put a number right."""

        def on_settle(self, draft, effect, settlement):
            draft.create("lab.letters", str(effect.key), {"output": settlement.output})
            if draft.get(COUNTS, "alice", "count", 0) != 7:
                raise LookupError("no such count")

    kernel, log = reused(domain=Fragile())
    kernel.decide(intent("Mail", {"count": 1}))
    (effect,) = kernel.open_effects()
    paid = Settlement(effect.key, succeeded=True, output="paid")
    assert kernel.settle(paid)
    past = folded(log)
    resumed = snapshots.resume(snapshots.take(past))
    assert resumed.ledger.marks == past.ledger.marks != {}
    assert snapshots.world_digest(resumed.state, resumed.ledger).hex() == kernel.world_digest()
    restored, _ = reused(domain=Fragile())
    restore(restored, kernel.snapshot())
    assert restored.world_digest() == kernel.world_digest()
    kernel.patch([(COUNTS, "alice", {"count": 7}, False)], "set right")
    assert kernel.settle(paid, again=True)
    verifier = Verifier([Fragile()])
    for data in log:
        verifier.apply(data)
    assert verifier.state.digest().hex() == kernel.digest()
    calm = Verifier([Lab()])  # where the exception is gone, the log is decided otherwise
    with pytest.raises(DecisionMismatch, match=r"exception of on_settle.*LookupError"):
        deque(map(calm.apply, log), 0)


def test_a_raising_on_remove_still_removes_the_agent():
    kernel, _ = reused(domain=Lab("on_remove"))
    digest = kernel.digest()
    kernel.change_agent("alice", "removed")
    assert "alice" not in kernel.ledger.agents
    assert kernel.digest() == digest


def test_a_raising_on_register_registers_no_agent():
    kernel, log = reused()
    before, length = trace(kernel), len(log)
    for count, why in [(-1, "on_register: count must not be negative"),
                       (-2, "on_register made what no record can hold")]:  # fmt: skip
        with pytest.raises(ValidationError, match=why):
            kernel.register_agent("carol", count=count)
    with pytest.raises(ValidationError, match="attributes must be plain JSON: JSON has no set"):
        kernel.register_agent("carol", count={1})
    assert (trace(kernel), len(log)) == (before, length)
    raising = kernel_of(Lab("on_register"), agents=())
    before, faults = trace(raising), listened_to(raising)
    with pytest.raises(
        ValidationError, match="on_register of lab raised RuntimeError: on_register raises; nothing"
    ) as raised:
        raising.register_agent("carol")
    assert isinstance(raised.value.__cause__, RuntimeError)
    assert faults == []  # it is raised, and so not reported too
    assert trace(raising) == before


def test_a_raising_on_open_is_named():
    class Unopened(Lab):
        def on_open(self, draft):
            raise LookupError("no seed")

    with pytest.raises(ValidationError, match="on_open of lab raised LookupError: no seed"):
        Kernel(Unopened())


class Hostile(Mapping[str, Any]):
    def __getitem__(self, key):
        raise RuntimeError

    def __iter__(self):
        raise RuntimeError

    def __len__(self):
        return 1

    def __repr__(self):
        raise RuntimeError


def cyclic() -> list[Any]:
    cycle: list[Any] = []
    cycle.append(cycle)
    return cycle


@dataclass
class Receipt:
    number: int
    at: date


def returned(output):
    """Settle an effect whose handler returned; return the kernel, its log and the faults."""
    kernel, log = reused()
    faults = listened_to(kernel)
    kernel.decide(intent("Mail", {"count": 1}))
    (effect,) = kernel.open_effects()
    assert kernel.settle(Settlement(effect.key, succeeded=True, output=output))
    record = decode_record(log[-1])
    assert isinstance(record, Settled)
    assert record.succeeded
    assert folded(log).state.digest().hex() == kernel.digest()
    return kernel.state["lab.letters"][str(effect.key)]["output"], faults


@pytest.mark.parametrize(
    ("output", "recorded"),
    [
        ({"at": datetime(2026, 1, 2, tzinfo=UTC)}, {"at": "2026-01-02T00:00:00Z"}),
        (Receipt(7, date(2026, 1, 2)), {"number": 7, "at": "2026-01-02"}),
        (Decimal("1.10"), "1.10"),
        ({3}, (3,)),
        (b"\x00", "AA=="),
        ({1: "one"}, {"1": "one"}),
    ],
)
def test_an_output_with_a_usual_json_form_is_recorded_in_it(output, recorded):
    assert returned(output) == (recorded, [])


@pytest.mark.parametrize(
    ("output", "why"),
    [
        (float("nan"), "output is not JSON: a number must be finite, got nan"),
        (2**80, "output is not JSON: "),
        ("\ud800", "output is not JSON: "),
        (cyclic(), "output is not JSON: "),
        (object(), "output is not JSON: JSON has no object, got <object"),
        (Hostile(), "output is not JSON: RuntimeError"),
        ("x" * 70_000, "output is larger than 65536 bytes; return a reference to it"),
    ],
)
def test_no_output_makes_a_handler_that_returned_a_failure(output, why):
    recorded, faults = returned(output)
    assert recorded["not_recorded"].startswith(why)
    assert len(recorded["text"]) <= 200
    assert faults == [("output of executor mail", "InvalidJsonValue")]


def test_a_failure_whose_reason_is_not_json_stays_a_failure():
    kernel, log = reused()
    kernel.decide(intent("Mail", {"count": 1}))
    (effect,) = kernel.open_effects()
    assert kernel.settle(Settlement(effect.key, succeeded=False, output=object()))
    settled = decode_record(log[-1])
    assert isinstance(settled, Settled)
    assert not settled.succeeded
    assert settled.output.startswith("output is not JSON: JSON has no object")


def test_an_effect_is_settled_once_and_only_if_it_is_known():
    kernel, _ = reused()
    kernel.decide([intent("Mail", {"count": 2}, "a"), intent("Mail", {"count": 1}, "b")])
    effects = kernel.open_effects()
    assert [str(effect.key) for effect in effects] == ["world/5/0", "world/5/1", "world/6/2"]
    assert [effect.payload["number"] for effect in effects] == [0, 1, 0]
    before = trace(kernel)
    for key in (EffectKey("other", 5, 0), EffectKey("world", 5, 7), EffectKey("world", 99, 0)):
        assert not kernel.settle(Settlement(key, succeeded=True), now=9.0)
    assert trace(kernel) == before
    settled = [kernel.settle(Settlement(effects[0].key, succeeded=True)) for _ in range(2)]
    assert settled == [True, False]
    assert kernel.open_effects() == effects[1:]


def test_effects_of_a_group_have_the_keys_of_the_outbox():
    kernel, _ = reused()
    batches = [
        checked(kernel, intent("Mail", {"count": 1}, a, agent_id=a)) for a in ("alice", "bob")
    ]
    decision = kernel.decide_checked([*batches, checked(kernel, add("c"))], 0)
    assert decision.effects == kernel.open_effects()
    assert kernel.decide_checked([], 0).effects == []


# The validator of seed 003


class Validator:
    def __init__(self, answer):
        self.answer = answer
        self.asked = []

    def validate_intent(self, intent, world_state):
        alice = dict(world_state[COUNTS]["alice"])  # the state is live: it shows what comes after
        self.asked.append((dict(intent), alice))
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


@pytest.mark.parametrize(
    ("answer", "code", "message"),
    [
        (True, None, None),
        (1, None, None),
        (False, "lab.refused", "the world's validator refused Add of 'alice'"),
        (None, "lab.refused", "the world's validator refused Add of 'alice'"),
        (refuse("night", "it is night", at="/amount"), "lab.night", "it is night"),
        (RefusalRaised(refuse("night", "it is night")), "lab.night", "it is night"),
        (KeyError("x"), "rule_error", None),
    ],
)
def test_a_validator_passes_refuses_or_raises(answer, code, message):
    kernel = kernel_of(validator=Validator(answer))
    verdict = kernel.decide(add("a"))
    assert verdict.codes == (() if code is None else (code,))
    assert message is None or verdict.refusals[0].message == message


def test_a_validator_gets_the_intent_and_the_state_as_its_rule_does():
    validator = Validator(True)
    kernel = kernel_of(validator=validator)
    assert kernel.decide([add("a", 3), add("b", 4)]).admitted
    (first, before), (second, between) = validator.asked
    assert (first["payload"], second["payload"]) == ({"amount": 3}, {"amount": 4})
    assert (before, between) == ({"count": 0}, {"count": 3})


def test_a_validator_is_notified_of_permissions():
    class NotifiedValidator(Validator):
        def __init__(self):
            super().__init__(True)
            self.notifications = []

        def set_agent_permissions(self, agent_id, permissions):
            self.notifications.append((agent_id, permissions))

    validator = NotifiedValidator()
    kernel = kernel_of(validator=validator, agents=())
    kernel.register_agent("alice", permissions=["Add"])
    kernel.register_agent("alice")
    kernel.register_agent("alice", permissions=["Add"])
    kernel.set_agent_permissions("alice", None)
    everything = set(kernel.registry.kinds)
    assert validator.notifications == [("alice", {"Add"}), ("alice", everything)]


# What a domain must be


def kinds_of(*kinds):
    class Made(Lab):
        name, version = "made", "1"

    Made.kinds = kinds
    return Made()


def nothing(draft, intent):
    """Do nothing."""


@pytest.mark.parametrize(
    ("domains", "why"),
    [
        ([], "at least one domain with at least one kind"),
        ([kinds_of()], "at least one domain with at least one kind"),
        ([object()], "a domain must be an object of a subclass"),
        ([Lab(), Lab()], "two domains are called 'lab'"),
        ([kinds_of(Kind("Add", dict, nothing)), Lab()], "kind 'Add' of 'lab' is already a kind of"),
        ([kinds_of(Kind("Add", nothing, nothing), Kind("B", lambda: 1, nothing))], None),
        (
            [kinds_of(Kind("Odd", Registry, nothing))],
            "the payload of kind 'Odd' must be a TypedDict or a pydantic model",
        ),
    ],
)
def test_an_invalid_domain_is_an_error(domains, why):
    if why is None:
        Registry(domains)
        return
    with pytest.raises(ValueError, match=why):
        Registry(domains)


@pytest.mark.parametrize("name", ["", "two words", "class", 7, "a.b"])
def test_a_domain_name_must_be_an_identifier(name):
    made = kinds_of(Kind("Add", dict, nothing))
    type(made).name = name
    with pytest.raises(ValueError, match="a domain's name must be an identifier"):
        Registry([made])


@pytest.mark.parametrize(
    "name", ["", "_a", "a_", "a__b", "a.", ".a", "a..b", "1a", "a-b", "é", "a" * 65, "a\n", "a._b"]
)
def test_a_kind_name_must_be_made_of_segments(name):
    with pytest.raises(ValueError, match="must be at most 64 characters of segments"):
        Kind(name, dict, nothing)


def test_the_registry_describes_its_kinds():
    registry = Registry([Lab(), Annex()])
    assert [kind.name for kind in registry][-1] == "annex.Count"
    assert registry.json_schemas()["Add"]["properties"] == {
        "amount": {"title": "Amount", "type": "integer"}
    }
    assert list(registry.json_schemas()) == sorted(registry.kinds)
    assert registry.payload_validator("Add").validate_python({"amount": 1}) == {"amount": 1}
    assert [domain.name for domain in registry.with_on_tick] == ["lab"]
    assert [domain.name for domain in registry.with_invariants] == ["lab"]
    assert registry.nearest("ADD", 1) == ("Add",)


def test_the_fingerprint_covers_names_versions_and_payloads():
    class Renamed(Annex):
        kinds = (Kind("annex.Count", Annex.kinds[0].payload, Annex.kinds[0].rule, version="3"),)

    class Other(BaseModel):
        amount: float

    class Retyped(Annex):
        kinds = (Kind("annex.Count", Other, Annex.kinds[0].rule, version="2"),)

    class Newer(Annex):
        version = "2"

    prints = {Registry([domain]).fingerprint for domain in (Annex(), Renamed(), Retyped(), Newer())}
    assert len(prints) == 4
    assert Registry([Annex()]).fingerprint == Registry([Annex()]).fingerprint


def test_default_hooks_do_nothing():
    class Plain(Domain):
        name, version = "plain", "1"
        kinds = (Kind("Nod", dict[str, int], nothing),)

    kernel = kernel_of(Plain(), agents=("alice",))
    kernel.change_executor("mail", None)
    kernel.tick(1.0)
    assert kernel.decide(intent("Nod", {})).admitted
    kernel.change_agent("alice", "removed")
    assert kernel.state == {}
    domain = Plain()
    assert domain.invariants(kernel.tree, []) == ()
    assert domain.may_see(kernel.tree, "alice", Ref("a", "b"))


def test_a_domain_without_on_settle_accepts_settlements():
    kernel = kernel_of([Lab(), Annex()])
    kernel.decide(intent("Mail", {"count": 1}))
    assert kernel.settle(Settlement(kernel.open_effects()[0].key, succeeded=True))


def test_an_agent_of_a_domain_runs_hooks_of_that_domain_only():
    heard = []

    class Town(Domain):
        version = "1"

        def __init__(self, name):
            self.name = name
            self.kinds = (Kind(f"{name}.go", dict[str, int], lambda *_: None),)

        def on_register(self, draft, agent_id, attributes):
            heard.append((self.name, "comes", agent_id))

        def on_remove(self, draft, agent_id):
            heard.append((self.name, "goes", agent_id))

    kernel = Kernel([Town("mill"), Town("inn")], KernelConfig())
    for agent_id in ("mill.clerk", "barn.clerk", "mill", "ann"):
        kernel.register_agent(agent_id)
    kernel.change_agent("mill.clerk", "removed")
    both = [
        (name, "comes", agent_id)
        for agent_id in ("barn.clerk", "mill", "ann")
        for name in ("mill", "inn")
    ]
    assert heard == [("mill", "comes", "mill.clerk"), *both, ("mill", "goes", "mill.clerk")]


@pytest.mark.parametrize("missing", ["name", "version", "kinds"])
def test_a_domain_without_a_required_attribute_is_reported_with_an_example(missing):
    attributes = {"name": "shop", "version": "1", "kinds": Lab().kinds}
    del attributes[missing]
    incomplete = type("Shop", (Domain,), attributes)()
    with pytest.raises(ValueError, match=f"the domain Shop has no {missing}; .* {missing} = "):
        Kernel([Lab(), incomplete])
