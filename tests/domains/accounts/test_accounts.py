"""Accounts: who opens them, what a reservation holds, who ends it, and who sees which number."""

from typing import Any

import pytest

from placet.agents.proposal.catalogue import Catalogue
from placet.agents.proposal.context_text import build
from placet.domains.accounts import ACCOUNTS, BALANCES, Accounts, balance_of
from placet.domains.accounts.payloads import RESERVATIONS
from placet.kernel import Domain, Kernel, Kind
from placet.kernel.plugin.domain import budget_exceeded, refuse
from placet.schemas.errors import DomainError, ValidationError
from placet.schemas.identity import Ref
from tests.domains.world_driver import WorldDriver

DAY = 86_400.0
MANAGER, BROKER = "accounts.manager", "session.recorder"
TEAM = {"give": {"tokens": 100, "calls": 3}, "agents": ["ann", "bob"]}


def driver(**settings: Any) -> WorldDriver:
    domain = Accounts(**({"accounts": {"team": TEAM}} | settings))
    return WorldDriver(domain, agents=("ann", "bob", "eve", MANAGER, BROKER))


def reserve(stage: WorldDriver, who: str, name: str, amount: int, **more: Any) -> Any:
    payload = {"account": "team", "unit": "tokens"} | more
    return stage.propose(who, "account.reserve", id=name, amount=amount, **payload)


def amounts(stage: WorldDriver, account: str = "team", unit: str = "tokens") -> tuple[int, ...]:
    fields = stage.kernel.state[BALANCES][f"{account}/{unit}"]
    return tuple(fields[name] for name in ("given", "left", "held", "spent", "overdrawn"))


def test_a_reservation_is_held_until_it_is_settled_or_released():
    stage = driver()
    assert reserve(stage, "ann", "a", 60).admitted
    assert amounts(stage) == (100, 40, 60, 0, 0)
    assert stage.propose("ann", "account.settle", id="a", used=10).admitted
    assert amounts(stage) == (100, 90, 0, 10, 0)
    assert reserve(stage, "ann", "a", 90).admitted
    assert stage.propose("ann", "account.release", id="a").admitted
    assert amounts(stage) == (100, 90, 0, 10, 0)
    assert not stage.kernel.state.get(RESERVATIONS)


def test_a_reservation_counts_at_every_level_that_counts_its_unit():
    stage = driver(
        accounts={
            "team": TEAM,
            "group": {"give": {"calls": 9}, "parent": "team"},
            "desk": {"give": {"tokens": 50}, "parent": "group"},
        }
    )
    assert reserve(stage, "ann", "a", 30, account="desk").admitted
    assert [amounts(stage, one)[2] for one in ("desk", "team")] == [30, 30]
    assert amounts(stage, "group", "calls")[2] == 0
    assert reserve(stage, "bob", "b", 70).admitted
    refusal = reserve(stage, "ann", "c", 5, account="desk").refusals[0]
    assert (refusal.code, refusal.details["account"]) == ("budget_exceeded", "team")


def test_more_than_was_reserved_is_overdrawn_and_the_next_reservation_refused():
    stage = driver()
    assert reserve(stage, "ann", "a", 10).admitted
    assert stage.propose("ann", "account.settle", id="a", used=12).admitted
    assert amounts(stage) == (100, 90, 0, 12, 2)
    refusal = reserve(stage, "bob", "b", 1).refusals[0]
    assert refusal.code == "budget_exceeded"
    assert "has 90 tokens left and is overdrawn by 2" in refusal.message
    # A gift pays the debt, of what was left too.
    assert stage.propose(MANAGER, "account.open", account="team", give={"tokens": 0}).admitted
    assert amounts(stage) == (100, 88, 0, 12, 0)
    assert reserve(stage, "bob", "b", 1).admitted


def test_a_refused_reservation_leaves_no_record_and_its_req_id_may_come_again():
    log: list[bytes] = []
    kernel = Kernel(Accounts(accounts={"team": TEAM}), sink=log.append)
    kernel.register_agent("ann")
    before = len(log)
    want = {"account": "team", "id": "a", "unit": "tokens", "amount": 200}
    intent = kernel.intent("account.reserve", want, agent="ann")
    verdict = kernel.decide([intent])
    assert (verdict.codes, verdict.refusals[0].stage) == (("budget_exceeded",), "domain")
    assert len(log) == before
    assert kernel.verdict_of("ann", intent["req_id"]) is None
    kernel.register_agent(MANAGER)
    gift = {"account": "team", "give": {"tokens": 100}}
    assert kernel.decide([kernel.intent("account.open", gift, agent=MANAGER)]).admitted
    assert kernel.decide([intent]).admitted


def test_the_level_is_named_and_its_numbers_shown_to_those_who_see_it_alone():
    accounts = {
        "top": {"give": {"tokens": 5}, "agents": ["bob"], "readers": ["eve"]},
        "team": TEAM | {"parent": "top"},
    }
    stage = driver(accounts=accounts)
    hidden, seen = (reserve(stage, agent, "a", 9).refusals[0] for agent in ("ann", "bob"))
    assert (hidden.code, hidden.details["account"]) == ("budget_exceeded", "top")
    assert "left" not in hidden.details
    assert "5" not in hidden.message
    assert (seen.details["account"], seen.details["left"]) == ("top", 5)
    domain, tree = stage.kernel.registry.domains[0], stage.kernel.tree
    for agent, sees in (("ann", False), ("bob", True), ("eve", True), (MANAGER, True)):
        for ref in (Ref(ACCOUNTS, "top"), Ref(BALANCES, "top/tokens")):
            assert domain.may_see(tree, agent, ref) is sees, agent
    assert not domain.may_see(tree, "eve", Ref(ACCOUNTS, "team"))
    assert not domain.may_see(tree, MANAGER, Ref(ACCOUNTS))


def test_a_broker_reserves_for_an_agent_that_sees_and_does_not_end_it():
    stage = driver()
    refused = reserve(stage, "ann", "a", 5, agent="bob")
    assert refused.codes == ("accounts.not_broker",)
    refused = reserve(stage, BROKER, "a", 5, agent="eve")
    assert refused.codes == ("accounts.account_unknown",)
    assert reserve(stage, BROKER, "a", 5, agent="ann").admitted
    for agent in ("ann", "bob"):
        refused = stage.propose(agent, "account.release", id="a", by=BROKER)
        assert refused.codes == ("accounts.reservation_unknown",)
    domain, tree = stage.kernel.registry.domains[0], stage.kernel.tree
    ref = Ref(RESERVATIONS, f"{BROKER}/a")
    assert [domain.may_see(tree, one, ref) for one in ("ann", "bob", BROKER)] == [True, False, True]
    assert stage.propose(BROKER, "account.settle", id="a", used=1).admitted
    assert domain.may_see(stage.kernel.tree, BROKER, ref)
    assert not domain.may_see(stage.kernel.tree, "ann", ref)


def test_reservations_of_a_removed_agent_stay_held():
    stage = driver()
    opened = {"account": "own", "give": {"tokens": 9}}
    assert stage.propose(MANAGER, "account.open", **opened).admitted
    assert reserve(stage, "ann", "a", 9).admitted
    stage.kernel.change_agent("ann", "removed")
    stage.kernel.register_agent("ann")
    assert amounts(stage) == (100, 91, 9, 0, 0)
    refused = stage.propose("ann", "account.release", id="a")
    assert refused.codes == ("accounts.reservation_unknown",)
    domain, ref = stage.kernel.registry.domains[0], Ref(RESERVATIONS, "ann/a")
    assert not domain.may_see(stage.kernel.tree, "ann", ref)
    assert stage.propose(MANAGER, "account.release", id="a", by="ann").admitted
    assert amounts(stage) == (100, 100, 0, 0, 0)
    stage.kernel.change_agent(MANAGER, "removed")
    assert stage.kernel.state[ACCOUNTS]["own"]["owner"] == ""


def test_managers_open_accounts_and_owners_open_others_below_theirs():
    stage = driver(managers=["ann"])
    mine = {"account": "mine", "give": {"tokens": 5}}
    assert stage.propose(MANAGER, "account.open", **mine).codes == ("accounts.not_manager",)
    refused = stage.propose("bob", "account.open", **mine)
    hidden = stage.propose("bob", "account.open", account="team", give={"tokens": 5})
    assert refused.codes == ("accounts.not_manager",)
    assert "ask 'ann'" in refused.refusals[0].message
    assert hidden.refusals[0].message == refused.refusals[0].message
    assert stage.propose("ann", "account.open", **mine, agents=["ann"]).admitted
    assert stage.propose(
        "ann", "account.open", account="sub", give={"x": 1}, parent="mine"
    ).admitted
    stage.propose("ann", "account.reserve", account="mine", id="a", unit="tokens", amount=1)
    refused = stage.propose("bob", "account.release", id="a", by="ann")
    assert refused.codes == ("accounts.reservation_unknown",)


@pytest.mark.parametrize(
    ("kind", "payload", "code"),
    [
        ("open", {"account": "team", "give": {"tokens": 1}, "parent": "x"}, "account_exists"),
        ("open", {"account": "a", "give": {"tokens": 1}, "parent": "tean"}, "account_unknown"),
        ("open", {"account": "a\u202e", "give": {"tokens": 1}}, "account_invalid"),
        ("open", {"account": "a", "give": {"t": 1}, "refill": {"u": {"amount": 1, "seconds": 1}}},
         "refill_unknown"),
        ("reserve", {"account": "tean", "id": "a", "unit": "tokens", "amount": 1},
         "account_unknown"),
        ("reserve", {"account": "team", "id": "a", "unit": "toks", "amount": 1}, "unit_unknown"),
        ("settle", {"id": "a", "used": 1}, "reservation_unknown"),
        ("release", {"id": "a", "by": "bob"}, "reservation_unknown"),
    ],
)  # fmt: skip
def test_a_fault_is_named_by_its_code(kind, payload, code):
    stage = driver(accounts={"team": {"give": {"tokens": 100}}})
    refused = stage.propose(MANAGER, f"account.{kind}", **payload)
    assert refused.codes == (f"accounts.{code}",)
    if code == "account_unknown":
        assert refused.refusals[0].suggestions == ("team",)


def test_reservations_accounts_and_the_depth_of_a_chain_are_bounded():
    stage = driver(reservations_max=2, accounts_max=3)
    assert reserve(stage, "ann", "a", 1).admitted
    assert reserve(stage, "ann", "a", 1).codes == ("accounts.reservation_exists",)
    assert reserve(stage, "bob", "a", 1).admitted
    assert reserve(stage, "ann", "b", 1).codes == ("accounts.reservations_full",)
    for name, codes in (("b", ()), ("c", ()), ("d", ("accounts.accounts_full",))):
        opened = stage.propose(MANAGER, "account.open", account=name, give={"tokens": 1})
        assert opened.codes == codes
    stage = driver()
    for depth in range(1, 9):
        parent = f"d{depth - 1}" if depth > 1 else "team"
        opened = stage.propose(
            MANAGER, "account.open", account=f"d{depth}", give={"x": 1}, parent=parent
        )
        assert opened.codes == (() if depth < 8 else ("accounts.too_deep",))


def test_a_refill_is_in_no_record_and_a_refusal_says_when_it_is_enough():
    refill = {"tokens": {"amount": 40, "seconds": DAY}}
    stage = driver(accounts={"team": TEAM | {"refill": refill}})
    payload = {"account": "team", "unit": "tokens"}
    assert stage.propose("ann", "account.reserve", id="a", amount=100, **payload).admitted
    assert stage.propose("ann", "account.settle", id="a", used=90).admitted
    seq, want = stage.kernel.seq, {"amount": 70, **payload}
    refused = stage.propose("ann", "account.reserve", id="b", now=DAY, **want)
    assert refused.refusals[0].retry_after == DAY
    assert refused.refusals[0].details["left"] == 50
    assert stage.kernel.seq == seq
    assert amounts(stage) == (100, 10, 0, 90, 0)
    balance = balance_of(stage.kernel.tree, "team", "tokens", round(5 * DAY * 1e9))
    assert balance is not None
    assert (balance.given, balance.left) == (190, 100), "filled up to what was given"
    assert stage.propose("ann", "account.reserve", id="b", now=2 * DAY, **want).admitted
    never = stage.propose("ann", "account.reserve", id="c", **(want | {"amount": 101}))
    assert never.refusals[0].retry_after is None


def test_settings_that_make_no_accounts_are_refused():
    with pytest.raises(ValueError, match="'top' of account 'team' is no account"):
        Accounts(accounts={"team": TEAM | {"parent": "top"}})
    with pytest.raises(ValueError, match="above itself"):
        Accounts(accounts={"a": TEAM | {"parent": "b"}, "b": TEAM | {"parent": "a"}})
    with pytest.raises(ValueError, match="gives"):
        Accounts(accounts={"team": {"gives": {"tokens": 1}}})
    with pytest.raises(ValueError, match="reservations_max must be an int"):
        Accounts(reservations_max=0)
    with pytest.raises(Exception, match="the refill of 'x' has no amount"):
        Kernel(Accounts(accounts={"a": TEAM | {"refill": {"x": {"amount": 1, "seconds": 1}}}}))


def test_an_operator_cannot_unbalance_a_balance():
    kernel = Kernel(Accounts(accounts={"team": TEAM}))
    with pytest.raises(ValidationError, match=r"left \+ held \+ spent = given \+ overdrawn"):
        kernel.patch([(BALANCES, "team/tokens", {"left": 101}, False)], "a mistake")


def test_a_budget_that_is_dropped_is_found_when_the_world_is_opened():
    def rule(draft, intent):
        budget_exceeded("too little")

    class Faulty(Domain):
        name, version = "faulty", "1"
        kinds = (Kind("Faulty", dict[str, int], rule),)

    with pytest.raises(DomainError, match="drops the refusal"):
        Kernel(Faulty())


class Toll(Domain):
    """Kinds with a cost: one writes, one reads alone, one is refused."""

    name, version = "toll", "1"
    kinds = (
        Kind("Pass", dict[str, int], lambda draft, intent: None, cost=0.25),
        Kind("Look", dict[str, int], lambda draft, intent: draft.answer(1), cost=0.1, risk="read"),
        Kind("Stop", dict[str, int], lambda draft, intent: refuse("no", "no"), cost=1.0),
    )


def tolled(**accounts: Any) -> Kernel:
    kernel = Kernel([Toll(), Accounts(accounts=accounts)])
    for name in ("ann", "bob"):
        kernel.register_agent(name)
    return kernel


def test_the_cost_of_a_kind_is_charged_to_the_account_of_its_agent_and_those_above():
    group = {"give": {"micro_cost": 10**6}, "agents": []}
    kernel = tolled(team=group, ann={"give": {"micro_cost": 400_000}, "parent": "team"})

    def spent() -> list[int]:
        balances = kernel.state[BALANCES]
        return [balances[f"{name}/micro_cost"]["spent"] for name in ("ann", "team")]

    assert kernel.decide([kernel.intent("Pass", agent="ann")]).admitted
    assert kernel.decide([kernel.intent("Look", agent="ann")]).admitted
    assert spent() == [350_000, 350_000]
    assert not kernel.decide([kernel.intent("Stop", agent="bob")]).admitted
    refusal = kernel.decide([kernel.intent("Pass", agent="ann")]).refusals[0]
    assert (refusal.code, refusal.at) == ("budget_exceeded", "/intents/0")
    assert "'ann' has 50000 micro_cost left, 250000 are needed" in refusal.message
    assert kernel.decide([kernel.intent("Pass", agent="bob")]).admitted, "bob has no account"
    assert spent() == [350_000, 350_000]


def test_an_account_that_counts_no_cost_is_not_charged():
    kernel = tolled(ann={"give": {"tokens": 1}})
    assert kernel.decide([kernel.intent("Pass", agent="ann")]).admitted
    assert kernel.state[BALANCES]["ann/tokens"]["left"] == 1


def test_costs_are_shown_where_a_domain_charges_them_alone():
    assert tolled().registry.charges_costs
    assert not Kernel(Toll()).registry.charges_costs
    assert '"cost":0.25' in build(domain=Catalogue([Toll(), Accounts()]))
    assert "cost" not in build(domain=Catalogue(Toll()))
