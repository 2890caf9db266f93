"""The hook `on_cost`: a domain charges the costs of kinds of all domains, before their rules."""

import pytest

from placet.kernel import Domain, Field, Kernel, Kind, Table, budget_exceeded
from placet.schemas.errors import DomainError

SPENT = "purse.spent"


class Purse(Domain):
    """Charges costs, up to three."""

    name, version = "purse", "1"
    kinds = ()

    def on_cost(self, draft, intent, cost):
        spent = draft.get(SPENT, "all", "sum", 0.0) + cost
        if spent > 3:
            return budget_exceeded("three is all")
        if not draft.exists(SPENT, "all"):
            draft.create(SPENT, "all")
        draft.put(SPENT, "all", "sum", spent)
        return None


class Toll(Domain):
    """A free kind, one with a cost, and a read-only one with a cost."""

    name, version = "toll", "1"
    kinds = (
        Kind("Free", dict[str, int], lambda draft, intent: None),
        Kind("Pass", dict[str, int], lambda draft, intent: None, cost=2.0),
        Kind("Look", dict[str, int], lambda draft, intent: draft.answer(1), cost=1.0, risk="read"),
    )


class Rows(Domain):
    """A kind with a rule of rows and a cost."""

    name, version = "rows", "1"
    tables = (Table("rows.agents", {"x": Field("f8")}),)
    kinds = (Kind("Go", {"x": Field("f8")}, rows=lambda b: None, table="rows.agents", cost=1.0),)


def test_a_cost_is_charged_before_the_rule_also_of_a_read_only_kind():
    kernel = Kernel([Toll(), Purse()])
    kernel.register_agent("ann")
    assert kernel.registry.charges_costs
    for kind, codes in (("Pass", ()), ("Look", ()), ("Look", ("budget_exceeded",)), ("Free", ())):
        assert kernel.decide([kernel.intent(kind, agent="ann")]).codes == codes
    assert kernel.state[SPENT]["all"]["sum"] == 3.0


def test_no_cost_is_charged_without_a_domain_that_does():
    kernel = Kernel(Toll())
    kernel.register_agent("ann")
    assert not kernel.registry.charges_costs
    assert kernel.decide([kernel.intent("Pass", agent="ann")]).admitted
    assert Toll().on_cost(kernel._draft, kernel.intent("Pass", agent="ann"), 2.0) is None


def test_a_cost_of_a_rule_of_rows_is_refused_when_the_world_is_opened():
    Kernel(Rows())
    with pytest.raises(DomainError, match="'Go' has a rule of rows and a cost, which domain 'pur"):
        Kernel([Rows(), Purse()])
