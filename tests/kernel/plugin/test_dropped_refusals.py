"""A refusal that a domain's code makes and does not return is an error when its world is opened."""

import gc
from functools import partial, wraps
from types import FunctionType
from weakref import ref

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


def _rule_with_many_names(last):
    """Return a rule that names 140 functions before its last statement."""
    functions = [f"function_{number}" for number in range(140)]
    made = "".join(f"def {name}(): pass\n" for name in functions)
    body = f"    if intent:\n        return refuse('full', 'full')\n    [{', '.join(functions)}]\n"
    known = {"refuse": refuse, "deny": refuse}
    exec(f"{made}def rule(draft, intent):\n{body}    {last}\n", known)
    return known["rule"]


def test_a_call_of_a_name_of_high_index_is_not_taken_for_another():
    Kernel(world_of(_rule_with_many_names("function_127()")))
    with pytest.raises(ValueError, match=r"^rule calls deny\("):
        Kernel(world_of(_rule_with_many_names("deny('full', 'full')")))


def test_a_call_of_what_a_refusal_has_is_no_refusal():
    def rule(draft, intent):
        refuse.__name__.upper()
        refuse("full", "it is full")._asdict()

    Kernel(world_of(rule))


def test_a_name_means_what_it_means_when_the_world_is_opened():
    known: dict[str, object] = {"note": print}
    exec("def rule(draft, intent):\n    note('full', 'full')\n    note('b', 'b')\n", known)
    Kernel(world_of(known["rule"]))
    known["note"] = refuse
    with pytest.raises(ValueError, match=r"^rule calls note"):
        Kernel(world_of(known["rule"]))


def test_a_domain_is_freed_with_its_rules():
    class Stock:
        pass

    class Shop(Domain):
        name, version = "shop", "1"

        def __init__(self, stock):
            self.kinds = (Kind("Buy", Payload, lambda draft, intent: stock and returns(draft, {})),)

    stock = Stock()
    freed = ref(stock)
    Kernel(Shop(stock))
    del stock
    gc.collect()
    assert freed() is None


def test_a_function_without_places_is_not_checked():
    code = drops.__code__.replace(co_linetable=b"")
    Kernel(world_of(FunctionType(code, globals())))


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
