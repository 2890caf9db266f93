"""`KernelConfig.on_rule_error`: refuse the batch of a rule that raises, or raise the exception."""

import json
from typing import Any

import pytest

from placet.kernel import Domain, Kernel, KernelConfig, Kind
from placet.schemas.effect import EffectKey, Settlement
from placet.schemas.errors import error_of
from placet.schemas.identity import Ref
from tests.kernel.builders import intent, kernel_of, trace

ITEMS = "frail.items"


class CrackedError(Exception):
    """Raised by the domain on purpose."""


class Frail(Domain):
    """A domain whose code raises where `cracks` names it."""

    name, version = "frail", "1"

    def __init__(self, cracks: str = "") -> None:
        self.cracks = cracks

        def swing(draft, intent):
            draft.put(ITEMS, "bell", "swung", draft.seq)
            if intent["payload"].get("with") == "object":
                draft.put(ITEMS, "bell", "clapper", {1, 2})
            if intent["payload"].get("with") == "library":
                json.loads("{")
            if intent["payload"].get("with") == "effect":
                draft.emit("ring", {})
            self.crack("rule")

        def footprint(intent):
            self.crack("reads")
            return [Ref(ITEMS, "rope")]

        self.kinds = (
            Kind("Swing", dict[str, str], swing, reads=footprint, effects=("ring",)),
            Kind("Tap", dict[str, str], swing),
        )

    def crack(self, where):
        if self.cracks == where:
            try:
                [].pop()
            except IndexError as error:
                raise CrackedError(f"{where} of the bell") from error

    def on_open(self, draft):
        draft.create(ITEMS, "bell")

    def on_remove(self, draft, agent_id):
        self.crack("on_remove")

    def on_batch(self, draft):
        self.crack("on_batch")

    def on_tick(self, draft, sim_time):
        draft.put(ITEMS, "bell", "time", sim_time)
        self.crack("on_tick")

    def on_settle(self, draft, effect, settlement):
        self.crack("on_settle")

    def invariants(self, state, changed):
        self.crack("invariants")
        return ()


def frail(cracks: str = "", **options):
    return kernel_of(Frail(cracks), **options)


def swings(req_id="r", agent_id="alice", **payload):
    return intent("Swing", payload, req_id, agent_id=agent_id)


@pytest.mark.parametrize("where", ["reads", "rule", "on_batch", "invariants"])
@pytest.mark.parametrize("is_grouped", [False, True])
def test_the_exception_leaves_the_kernel_and_nothing_is_changed(where, is_grouped):
    kernel = frail(where, on_rule_error="raise")
    before = trace(kernel)
    batches = [swings(), swings(agent_id="bob")][: 1 + is_grouped]
    with pytest.raises(CrackedError, match="of the bell") as caught:
        kernel.decide_group(batches)
    assert trace(kernel) == before
    assert isinstance(caught.value.__cause__, IndexError)
    assert caught.value.__context__ is caught.value.__cause__  # and not the kernel's own error
    assert "frail" in caught.value.__notes__[0] or "of Swing" in caught.value.__notes__[0]
    kernel.registry.domains[0].cracks = ""
    assert kernel.decide(swings()).admitted


@pytest.mark.parametrize(
    "call",
    [
        ("on_tick", lambda kernel: kernel.tick(1.0)),
        ("on_remove", lambda kernel: kernel.change_agent("bob", "removed")),
        ("on_settle", lambda kernel: kernel.settle(Settlement(EffectKey("world", 6, 0), True))),
    ],
    ids=lambda call: call[0],
)
def test_a_hook_that_raises_leaves_no_record(call):
    where, act = call
    kernel = frail(on_rule_error="raise")
    kernel.change_executor("ring", 8)
    assert kernel.decide(swings(**{"with": "effect"})).seq == 6
    kernel.registry.domains[0].cracks = where
    before = trace(kernel)
    with pytest.raises(CrackedError):
        act(kernel)
    assert trace(kernel) == before


def test_the_batches_of_a_group_before_the_raising_one_stay():
    kernel = frail(on_rule_error="raise")
    first, second, third = (
        intent("Swing", payload, req_id, agent_id=agent_id, priority=priority)
        for req_id, agent_id, priority, payload in (
            ("first", "alice", 30, {}),
            ("second", "bob", 20, {"with": "object"}),
            ("third", "alice", 10, {}),
        )
    )
    with pytest.raises(TypeError, match="plain JSON"):
        kernel.decide_group([first, second, third])
    assert kernel.verdict_of("alice", "first").admitted
    assert kernel.verdict_of("bob", "second") is kernel.verdict_of("alice", "third") is None
    again, skipped = kernel.decide_group([first, third])
    assert (again.replayed, skipped.admitted) == (True, True)


def test_a_plain_batch_of_a_group_is_undone():
    kernel = frail("rule", on_rule_error="raise")
    before = trace(kernel)
    with pytest.raises(CrackedError):
        kernel.decide_group([intent("Tap", {}, agent_id=name) for name in ("alice", "bob")])
    assert trace(kernel) == before


def test_a_refusal_shows_the_operator_the_exception_and_its_place():
    refusal = frail("rule").decide(swings()).refusals[0]
    assert refusal.details["error"] == "CrackedError"
    assert refusal.details["message"] == "CrackedError: rule of the bell"
    assert refusal.details["place"].startswith(f"{__file__}:")
    assert refusal.details["place"].endswith(" in crack")
    assert f"{__file__}:" in repr(refusal)


@pytest.mark.parametrize(
    ("cause", "expected"),
    [
        ("object", "TypeError: a state value must be plain JSON, got set: {1, 2}"),
        ("library", "JSONDecodeError: Expecting property name enclosed in double quotes"),
    ],
)
def test_an_error_of_the_draft_or_a_library_is_shown_at_the_line_of_the_rule(cause, expected):
    verdict = frail().decide(swings(**{"with": cause}))
    refusal = verdict.refusals[0]
    assert refusal.details["message"].startswith(expected)
    assert refusal.details["place"].endswith(" in swing")
    assert expected in str(error_of(verdict))


@pytest.mark.parametrize("where", ["reads", "rule", "on_batch", "invariants"])
def test_an_agent_is_shown_the_type_of_the_exception_alone(where):
    verdict = frail(where).decide(swings(), submitter="alice")
    (shown,) = verdict.as_dict()["refusals"]
    assert shown["code"] == "rule_error"
    assert shown["details"].keys() <= {"agent_id", "kind", "error"}
    assert "bell" not in str(shown)
    assert __file__ not in str(shown)


def test_the_log_has_neither_the_text_nor_the_place():
    texts = []
    for submitter in ("operator", "alice"):
        log: list[bytes] = []
        kernel = frail("rule", sink=log)
        kernel.decide(swings(), submitter=submitter)
        texts.append(b"".join(log))
    assert b"rule_error" in texts[0]
    for text in texts:
        assert b"of the bell" not in text
        assert b"test_on_rule_error" not in text


def test_another_value_than_refuse_or_raise_is_an_error():
    with pytest.raises(ValueError, match="on_rule_error must be one of refuse, raise, got 'log'"):
        KernelConfig(on_rule_error="log")  # type: ignore[arg-type]  # as a user may write


def test_a_rule_of_one_line_in_a_program_without_a_file_is_placed():
    space: dict[str, Any] = {}
    exec(compile("def swing(draft, intent):\n    1 / 0", "<stdin>", "exec"), space)

    class Typed(Domain):
        name, version = "typed", "1"
        kinds = (Kind("Swing", dict[str, str], space["swing"]),)

    kernel = Kernel(Typed())
    kernel.register_agent("alice")
    assert kernel.decide(swings()).refusals[0].details["place"] == "<stdin>:2 in swing"
