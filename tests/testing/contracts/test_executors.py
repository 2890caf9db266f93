"""Executors of a domain in the contract suite: sound ones pass, planted faults do not."""

from itertools import count

import pytest
from typing_extensions import TypedDict

from placet import Domain, Kind, Orchestrator, OrchestratorConfig
from placet.kernel import EffectHandler
from placet.plugins.entry_points import EXECUTORS
from placet.runtime.executors import InProcess
from placet.runtime.executors.domain_executors import ExecutorNotFound
from placet.testing.contracts import ExecutorContract
from tests.frontends.test_plugin_commands import install


class Order(TypedDict):
    article: str


def order(draft, intent):
    draft.emit("ship", {"article": intent["payload"]["article"]})


class Shop(Domain):
    name, version = "shop", "1"
    kinds = (Kind("Order", Order, order, effects=("ship",)),)
    executors = f"{__name__}:plain"

    def on_settle(self, draft, effect, settlement):
        draft.create("shop.orders", str(effect.key), {"said": settlement.output})


def ship(effect):
    return {"sent": effect.payload["article"]}


async def ship_async(effect):
    return ship(effect)


def plain(domain):
    return {"ship": EffectHandler(handler=ship, delivery="pure")}


def awaited(domain):
    return {"ship": EffectHandler(handler=ship_async, delivery="idempotent")}


def in_process(domain):
    # The field is typed as a plain function; a mark on one is a handler of `register_executor` too.
    return {"ship": EffectHandler(handler=InProcess(ship), delivery="pure")}  # type: ignore[arg-type]


def once(domain):
    return {"ship": EffectHandler(handler=ship, delivery="at_most_once")}


class _ShopSuite(ExecutorContract):
    executors = "plain"

    def domain(self):
        shop = Shop()
        shop.executors = f"{__name__}:{self.executors}"
        return shop

    def payloads(self):
        return {"ship": {"article": "lamp"}}


class TestPlain(_ShopSuite):
    pass


class TestAsync(_ShopSuite):
    executors = "awaited"


class TestInProcess(_ShopSuite):
    executors = "in_process"


class TestAtMostOnce(_ShopSuite):
    executors = "once"


numbers = count()


def faulty(handler):
    return lambda domain: {"ship": EffectHandler(handler=handler, delivery="pure")}


nothing = faulty(lambda effect: None)
numbered = faulty(lambda effect: next(numbers))
emptying = faulty(lambda effect: effect.payload.clear())
unrecordable = faulty(lambda effect: object())


def surplus(domain):
    return plain(domain) | {"sihp": None}


@pytest.mark.parametrize(
    ("executors", "law"),
    [
        ("surplus", "test_each_kind_of_effect_has_an_entry"),
        ("numbered", "test_a_second_attempt_does_what_its_delivery_promises"),
        ("emptying", "test_a_payload_is_only_read"),
        ("unrecordable", "test_an_output_has_a_json_form"),
    ],
)
def test_a_planted_fault_breaks_its_law(executors, law):
    suite = _ShopSuite()
    suite.executors = executors
    with pytest.raises((AssertionError, TypeError)):
        getattr(suite, law)()


async def test_executors_of_another_distribution_are_found_by_their_name(tmp_path, monkeypatch):
    install(tmp_path, f"[{EXECUTORS}]\ncarrier = {__name__}:plain\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    shop = Shop()
    shop.executors = "carrier"
    config = OrchestratorConfig(log_level="critical")
    async with Orchestrator(shop, config) as world:
        ann = await world.register_agent("ann")
        verdict = await ann.submit([ann.intent("Order", article="lamp")])
        await world.wait_effects(verdict)
        (settled,) = (await world.state("shop.orders")).values()
        assert settled["said"] == {"sent": "lamp"}
    shop.executors = "carreir"
    with pytest.raises(ExecutorNotFound, match="no function of executors 'carreir'; did you mean"):
        await Orchestrator(shop, config).__aenter__()
