"""The visibility of intents: a table of callers, and who speaks for an agent."""

import pytest

from placet.kernel import Domain, Kernel
from placet.kernel.intent_visibility import IntentReader, speaks_for
from placet.kernel.plugin.domain import Kind
from placet.schemas.identity import OPERATOR


class Club(Domain):
    """Shares its intents with its members."""

    name, version = "club", "1"
    kinds = (Kind("club.say", dict, lambda draft, intent: None),)

    def shares_intents(self, state, agent_id):
        return agent_id in {"al", "pet"}


class Home(Domain):
    """Shares nothing."""

    name, version = "home", "1"
    kinds = (Kind("home.say", dict, lambda draft, intent: None),)


def kernel() -> Kernel:
    """Return a world in which Cy owns pet and new; new was registered before, for somebody."""
    made = Kernel([Club(), Home()])
    for agent_id in ("al", "bo"):
        made.register_agent(agent_id)
    made.register_agent("pet", owner="cy")
    made.register_agent("new", owner="di")
    made.change_agent("new", "removed")
    made.register_agent("new", owner="cy")
    return made


@pytest.mark.parametrize(
    ("caller", "agent_id", "kind", "of", "submitter", "may_read"),
    [
        (OPERATOR, None, "home.say", "bo", "bo", True),
        (OPERATOR, "al", "home.say", "al", OPERATOR, True),
        (OPERATOR, "al", "home.say", "bo", "bo", False),
        (OPERATOR, "al", "club.say", "bo", "bo", True),
        (OPERATOR, "bo", "club.say", "al", "al", False),
        ("al", "al", "home.say", "al", "al", True),
        ("al", "al", "home.say", "al", OPERATOR, True),
        ("al", "al", "home.say", "bo", "bo", False),
        ("al", "al", "club.say", "bo", "bo", True),
        ("bo", "bo", "club.say", "al", "al", False),
        ("bo", "bo", "gone.say", "al", "al", False),
        ("bo", "bo", "gone.say", "bo", "bo", True),
        ("bo", "bo", "home.say", "ghost", "bo", False),
        ("cy", "pet", "home.say", "pet", "pet", True),
        ("cy", "cy", "home.say", "pet", "pet", True),
        ("cy", "cy", "home.say", "new", "cy", True),
        ("cy", "cy", "home.say", "new", "di", False),
        ("cy", "cy", "home.say", "new", "new", False),
        ("cy", "cy", "home.say", "bo", "bo", False),
        ("cy", "cy", "club.say", "bo", "bo", True),
        ("di", "di", "home.say", "new", "di", False),
        ("di", "di", "club.say", "al", "al", False),
    ],
)
def test_a_caller_reads_its_own_intents_and_intents_that_their_domain_shares(
    caller, agent_id, kind, of, submitter, may_read
):
    world = kernel()
    reader = IntentReader(world.registry, world.ledger, world.tree, caller, agent_id)
    assert reader.may_read({"kind": kind, "agent_id": of}, submitter) is may_read
    assert reader.reads_all is (caller == OPERATOR and agent_id is None)


def test_the_operator_an_agent_and_its_owner_speak_for_it():
    ledger = kernel().ledger
    assert speaks_for(ledger, OPERATOR, "ghost")
    assert speaks_for(ledger, "ghost", "ghost")
    assert not speaks_for(ledger, "al", "ghost")
    assert speaks_for(ledger, "cy", "pet")
    assert not speaks_for(ledger, "pet", "al")
