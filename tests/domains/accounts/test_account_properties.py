"""The domain `accounts` passes the property tests."""

from functools import partial

import pytest
from hypothesis import strategies as st

from placet.domains.accounts import Accounts
from placet.testing import domain_property_tests
from tests.levels import examples

ACCOUNTS = {
    "top": {"give": {"tokens": 9}, "agents": ["bob"]},
    "team": {
        "give": {"tokens": 6, "calls": 3},
        "parent": "top",
        "agents": ["ann", "bob"],
        "refill": {"tokens": {"amount": 2, "seconds": 0.5}},
    },
}
NAMES = st.sampled_from(["a", "b"])
AGENTS = {"by": st.sampled_from(["ann", "bob", "cyd"])}
NAMED = st.sampled_from(["team", "team", "top", "new"])
GIVE = st.fixed_dictionaries({"tokens": st.integers(0, 5)}, optional={"calls": st.integers(0, 5)})

TestAccounts = pytest.mark.slow(
    domain_property_tests(
        partial(Accounts, accounts=ACCOUNTS, managers=["ann"], brokers=["bob"], accounts_max=3),
        intents={
            "account.open": st.fixed_dictionaries(
                {"account": NAMED, "give": GIVE},
                optional={
                    "parent": NAMED,
                    "agents": st.lists(st.sampled_from(["ann", "bob", "cyd"]), max_size=2),
                },
            ),
            "account.reserve": st.fixed_dictionaries(
                {"account": NAMED, "id": NAMES, "unit": st.sampled_from(["tokens", "calls"]),
                 "amount": st.integers(1, 4)},
                optional={"agent": st.sampled_from(["ann", "bob", "cyd"])},
            ),
            "account.settle": st.fixed_dictionaries(
                {"id": NAMES, "used": st.integers(0, 6)}, optional=AGENTS
            ),
            "account.release": st.fixed_dictionaries({"id": NAMES}, optional=AGENTS),
        },
        examples=examples(30),
    )
)  # fmt: skip
