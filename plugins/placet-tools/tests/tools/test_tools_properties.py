"""The domain of tools passes the property tests."""

from hypothesis import strategies as st
from tests.tools.shop import Shop

from placet.testing import domain_property_tests
from tests.levels import examples

ORDERS = st.fixed_dictionaries({"order": st.sampled_from(["A", "B"])})
TO = st.fixed_dictionaries({"to": st.sampled_from(["bob", "boss", "competitor"])})
OF_THE_RECORDER = {"shop.plan": st.just({"keys": ["a", "b"]})}


def without_approvals():
    return Shop().tools.domain(approve_from="never")


TestTools = domain_property_tests(
    without_approvals,
    intents={
        "shop.lookup": ORDERS,
        "shop.refund": ORDERS,
        "shop.charge": ORDERS,
        "shop.mail": TO,
        **OF_THE_RECORDER,
    },
    examples=examples(20),
    without=["read_sets_are_complete"],
)
