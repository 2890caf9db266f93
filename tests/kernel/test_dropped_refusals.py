"""A refusal that a domain's code makes and does not return is an error when its world is opened."""

from functools import partial, wraps

import pytest

from placet.kernel import Domain, Kernel, Kind, conflict, refuse
from placet.kernel import refuse as deny
from placet.schemas.codec import Json
from tests.kernel.builders import intent

Payload = dict[str, Json]


def drops(draft, intent):
    if intent["payload"]:
        refuse("full", "it is full", at="/count")


def drops_with_options(draft, intent):
    refuse("full", "it is full", **intent["payload"])


def drops_by_another_name(draft, intent):
    deny("full", "it is full")


def drops_a_conflict(draft, intent):
    if draft.claim("lamp"):
        conflict("lamp", "alice")


def drops_inside(draft, intent):
    def check():
        refuse("full", "it is full")

    return check()


def _check(draft):
    refuse("full", "it is full")


def drops_in_a_function_of_the_module(draft, intent):
    _check(draft)


def _logged(rule):
    @wraps(rule)
    def logged(draft, intent):
        return rule(draft, intent)

    return logged


class Method:
    def rule(self, draft, intent):
        refuse("full", "it is full")


# Refusals that are used


def returns(draft, intent):
    for count in intent["payload"]:
        try:
            return refuse("full", f"it is full of {count}")
        finally:
            draft.charge(1)
    return None


def collects(draft, intent):
    found = []
    found.append(refuse("full", "it is full"))
    found.extend(map(partial(refuse, "full"), ["it is full"]))
    return found[0]


def tries(draft, intent):
    first = refuse("full", "it is full")
    return None if draft.claim("lamp") else first


def world_of(rule, **attributes):
    made = {"name": "shop", "version": "1", "kinds": [Kind("Buy", Payload, rule)], **attributes}
    return type("Shop", (Domain,), made)()


@pytest.mark.parametrize(
    ("rule", "name"),
    [
        (drops, "refuse"),
        (drops_with_options, "refuse"),
        (drops_by_another_name, "deny"),
        (drops_a_conflict, "conflict"),
        (drops_inside, "refuse"),
        (drops_in_a_function_of_the_module, "refuse"),
        (_logged(drops), "refuse"),
        (Method().rule, "refuse"),
    ],
)
def test_a_dropped_refusal_is_an_error_with_its_place(rule, name):
    place = r"write `return \w+\(\.\.\.\)` \(.*test_dropped_refusals\.py:\d+\)$"
    with pytest.raises(ValueError, match=rf"calls {name}\(\.\.\.\) and drops the refusal.*{place}"):
        Kernel(world_of(rule))


def test_the_place_is_the_line_of_the_call():
    line = drops.__code__.co_firstlineno + 2
    with pytest.raises(ValueError, match=rf"^drops calls .*:{line}\)$"):
        Kernel(world_of(drops))


def test_a_method_that_drops_a_refusal_is_an_error():
    class Shop(Domain):
        name, version, kinds = "shop", "1", (Kind("Buy", Payload, returns),)

        def on_register(self, draft, agent_id, attributes):
            self.check()

        @staticmethod
        def check():
            refuse("closed", "the shop is closed")

    with pytest.raises(ValueError, match=r"Shop\.check calls refuse"):
        Kernel(Shop())


@pytest.mark.parametrize("rule", [returns, collects, tries, _logged(returns), max])
def test_a_refusal_that_is_used_is_no_error(rule):
    Kernel(world_of(rule))


def test_a_rule_that_returns_its_refusal_refuses():
    kernel = Kernel(world_of(returns))
    kernel.register_agent("alice")
    assert kernel.decide(intent("Buy", {"count": 1})).codes == ("shop.full",)
