"""Mistakes in a domain: each is an error that names it, or a refused batch."""

import sys
import typing

import pytest
from typing_extensions import TypedDict

from placet.kernel import Domain, Kernel, KernelConfig, Kind
from placet.kernel.plugin.registry import ForeignWriteError
from placet.schemas.errors import DomainError, ValidationError
from tests.kernel.builders import intent, trace

OWN, THEIRS = "shop.shelf", "bank.purses"


class Buy(TypedDict):
    count: int


def buy(draft, intent):
    draft.put(OWN, "lamp", "count", intent["payload"]["count"])


async def buy_later(draft, intent):
    return None


def shop_with(**attributes):
    made = {"name": "shop", "version": "1", "kinds": [Kind("Buy", Buy, buy)], **attributes}
    return type("Shop", (Domain,), made)()


@pytest.mark.parametrize(
    ("attributes", "why"),
    [
        ({"version": 1}, "the version of domain 'shop' must be a string, got 1"),
        ({"name": "my-shop"}, "must be an identifier such as 'my_shop', got 'my-shop' of Shop"),
        ({"kinds": Kind("Buy", Buy, buy)}, "kinds of domain 'shop' must be a sequence such as"),
        ({"kinds": ["Buy"]}, r"kinds of domain 'shop' must be a sequence .* got \['Buy'\]"),
        ({"kinds": [Kind("Buy", None, buy)]}, "must be a TypedDict or a pydantic model, got None"),
        ({"kinds": [Kind("Buy", {"n": int}, buy)]}, "must be a TypedDict or a pydantic model, got"),
        (
            {"on_ticks": lambda self, draft: None},
            r"Shop.on_ticks is no hook.*did you mean 'on_tick'",
        ),
        ({"on_start": lambda self: None}, "Shop.on_start is no hook"),
        ({"invariant": lambda self: ()}, "Shop.invariant is no hook.*did you mean 'invariants'"),
        ({"writes": "bank"}, "`writes` of domain 'shop' must be the names of other domains"),
    ],
)
def test_a_world_names_the_mistake_in_a_domain(attributes, why):
    with pytest.raises(ValueError, match=why):
        Kernel(shop_with(**attributes))


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="pydantic takes it there")
def test_a_typed_dict_of_the_standard_library_is_refused_before_python_3_12():
    class Old(typing.TypedDict):
        n: int

    with pytest.raises(DomainError, match=r"of typing_extensions before Python 3.12, got <class"):
        Kernel(shop_with(kinds=[Kind("Buy", Old, buy)]))


@pytest.mark.parametrize(
    ("rule", "why"),
    [
        (None, r"the rule of kind 'Buy' must be a function of \(draft, intent\), got None"),
        (lambda draft: None, r"must be a function of \(draft, intent\), got \(draft\)"),
        (buy_later, "that is not async, because nothing awaits it"),
    ],
)
def test_a_kind_names_the_mistake_in_its_rule(rule, why):
    with pytest.raises(ValueError, match=why):
        Kind("Buy", Buy, rule)


def test_a_kind_takes_a_rule_that_shows_no_signature():
    assert Kind("Buy", Buy, max).name == "Buy"  # type: ignore[arg-type]  # compiled


def test_settings_that_raise_are_named_with_their_place():
    def settings(self):
        return {"size": 1}["color"]

    with pytest.raises(
        DomainError, match=r"settings of domain 'shop' raised KeyError: 'color' \(test_"
    ) as c:
        Kernel(shop_with(settings=settings))
    assert isinstance(c.value.__cause__, KeyError)


def test_an_interrupt_of_settings_passes_through():
    def settings(self):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Kernel(shop_with(settings=settings))


def test_reads_must_be_a_function():
    with pytest.raises(ValueError, match="the reads of kind 'Buy' must be a function"):
        Kind("Buy", Buy, buy, reads=["shop.shelf"])  # type: ignore[arg-type]  # the mistake


def test_on_register_must_return_none_or_a_refusal():
    kernel = Kernel(shop_with(on_register=lambda self, draft, agent_id, attributes: False))
    with pytest.raises(ValidationError, match=r"return None or refuse\(code, message\), got false"):
        kernel.register_agent("alice")


@pytest.mark.parametrize("answer", [True, None])
def test_invariants_must_return_a_list(answer):
    shop = shop_with(
        kinds=[Kind("Buy", Buy, lambda draft, intent: draft.create(OWN, "lamp"))],
        invariants=lambda self, state, changed: answer,
    )
    kernel = Kernel(shop)
    kernel.register_agent("alice")
    (refusal,) = kernel.decide(intent("Buy", {"count": 1})).refusals
    assert "they must return a list of refuse(...), got" in refusal.details["message"]


def test_an_attribute_that_a_draft_lacks_is_explained():
    kernel = Kernel(shop_with(kinds=[Kind("Buy", Buy, lambda draft, intent: draft.set(OWN))]))
    kernel.register_agent("alice")
    (refusal,) = kernel.decide(intent("Buy", {"count": 1})).refusals
    assert "a draft has no 'set': a rule reads by get" in refusal.details["message"]


# Writes to the collections of another domain


def steal(draft, intent):
    draft.put(THEIRS, "till", "coins", 0)


class Bank(Domain):
    name, version = "bank", "1"
    kinds = (Kind("Pay", Buy, steal),)

    def on_open(self, draft):
        draft.create(THEIRS, "till", {"coins": 9})


def town(on_rule_error="refuse", **attributes):
    shop = shop_with(kinds=[Kind("Steal", Buy, steal)], **attributes)
    kernel = Kernel([Bank(), shop], KernelConfig(on_rule_error=on_rule_error))
    kernel.register_agent("alice")
    kernel.register_agent("bob")
    return kernel


def thefts():
    return [intent("Steal", {"count": 1}, agent_id=agent_id) for agent_id in ("alice", "bob")]


@pytest.mark.parametrize("count", [1, 2])
def test_a_rule_that_writes_a_collection_of_another_domain_is_refused(count):
    kernel = town()
    before = kernel.digest()
    for verdict in kernel.decide_group(thefts()[:count]):
        assert verdict.codes == ("rule_error",)
        details = verdict.refusals[0].details
        assert details["error"] == "ForeignWriteError"
        assert (
            "domain 'shop' wrote bank.purses/till, which is of domain 'bank'" in details["message"]
        )
    assert kernel.digest() == before
    assert kernel.decide(intent("Pay", {"count": 1}, "own")).admitted


def test_a_domain_may_write_what_its_writes_name():
    kernel = town(writes=("bank",))
    assert all(verdict.admitted for verdict in kernel.decide_group(thefts()))


def test_a_collection_without_the_name_of_a_domain_is_anyones():
    def leave(draft, intent):
        draft.create("street", f"box {draft.seq}")

    kernel = Kernel([Bank(), shop_with(kinds=[Kind("Leave", Buy, leave)])])
    kernel.register_agent("alice")
    assert kernel.decide(intent("Leave", {"count": 1})).admitted


@pytest.mark.parametrize(
    ("hook", "act"),
    [
        ("on_batch", lambda kernel: kernel.decide(intent("Pay", {"count": 1}))),
        ("on_tick", lambda kernel: kernel.tick(1.0)),
    ],
)
def test_a_hook_that_writes_a_collection_of_another_domain_is_undone(hook, act):
    kernel = town("raise", **{hook: lambda self, draft, *rest: steal(draft, None)})
    before = trace(kernel)
    with pytest.raises(ForeignWriteError, match=r"domain 'shop' wrote bank\.purses/till"):
        act(kernel)
    assert trace(kernel) == before


def test_a_value_that_a_rule_changes_in_place_is_explained():
    def buy_more(draft, intent):
        draft.create(OWN, "lamp", {"buyers": []})
        draft.get(OWN, "lamp", "buyers").append(intent["agent_id"])

    shop = shop_with(kinds=[Kind("Buy", Buy, buy_more)])
    kernels = [Kernel(shop), Kernel(shop, KernelConfig(on_rule_error="raise"))]
    for kernel in kernels:
        kernel.register_agent("alice")
    (refusal,) = kernels[0].decide(intent("Buy", {"count": 1})).refusals
    assert "change a copy, such as list(value)" in refusal.details["message"]
    with pytest.raises(AttributeError) as caught:
        kernels[1].decide(intent("Buy", {"count": 1}))
    assert "change a copy, such as list(value)" in caught.value.__notes__[-1]
