"""The domain of tools passes the property tests."""

from functools import partial
from typing import Any

from hypothesis import strategies as st
from tests.tools.shop import Shop

from placet.testing import domain_property_tests
from placet_tools.domain import ToolsDomain
from tests.levels import examples

ORDERS = st.fixed_dictionaries({"order": st.sampled_from(["A", "B"])})
TO = st.fixed_dictionaries({"to": st.sampled_from(["bob", "boss", "competitor"])})
OF_THE_RECORDER = {"shop.plan": st.just({"keys": ["a", "b"]})}


POLICY = {
    "defaults": {"unlisted": "allow"},
    "tools": {
        "refund": {"after": [{"tool": "lookup", "by": ["order"]}]},
        "charge": {"at_most": [{"n": 2, "per": ["order"]}], "refuse": [{"if": "order == 'B'"}]},
        "mail": {"never_after": [{"tool": "charge"}], "at_most": [{"n": 2, "within": 5}]},
    },
}


class WithoutApprovals(ToolsDomain):
    """The domain of the shop, which its settings make again."""

    def __init__(self, *, approve_from="never", policy=None):
        super().__init__("shop", Shop().tools.by_name, approve_from=approve_from, policy=policy)


INTENTS = {
    "shop.lookup": ORDERS,
    "shop.refund": ORDERS,
    "shop.charge": ORDERS,
    "shop.mail": TO,
    **OF_THE_RECORDER,
}
OPTIONS: dict[str, Any] = {
    "intents": INTENTS,
    "examples": examples(20),
    "without": ["read_sets_are_complete"],
}

TestTools = domain_property_tests(WithoutApprovals, **OPTIONS)
TestPolicy = domain_property_tests(partial(WithoutApprovals, policy=POLICY), **OPTIONS)
