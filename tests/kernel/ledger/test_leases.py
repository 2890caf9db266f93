"""The table of leases: order, calls, lapses, ends and rest, as functions of records and time."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placet.kernel.ledger.leases import LeaseTable
from placet.schemas.config import Leases
from placet.schemas.identity import Ref
from placet.schemas.limits import SECOND_NS

S = SECOND_NS
A, B = ["w.o", "a"], ["w.o", "b"]


def table_of(**settings: Any) -> LeaseTable:
    return LeaseTable(Leases(**settings).settings())


def request(table, who, now, refs=(A,), seconds=1.0, *, owner=None, begin=True):
    payload = {"refs": [*refs], "seconds": seconds, "begin": begin}
    ticket = table.request(who, owner or who, payload, round(now * S))
    return table.answer_of(ticket)


def holders(table, now):
    held = table.at(round(now * S)).held
    return {ref.entity: ticket.agent_id for ref, ticket in held.items()}


def is_called(table, who, now):
    ticket = table.at(round(now * S)).tickets.get(who)
    return ticket is not None and ticket.called_ns is not None


def test_a_free_entity_is_leased_at_once_and_until_the_end():
    table = table_of()
    assert request(table, "ann", 1.0, seconds=2) == {"granted": True, "until": 3.0, "ahead": 0}
    assert holders(table, 2.9) == {"a": "ann"}
    assert holders(table, 3.0) == {}
    assert table.tickets  # reading changes nothing


def test_an_entity_rests_after_a_lease_in_proportion_to_the_used_time():
    table = table_of(share=0.25)
    request(table, "ann", 0.0, seconds=5)
    assert request(table, "bob", 0.5)["ahead"] == 1
    assert table.release("ann", 1 * S)  # 1 s used: 3 s of rest
    assert not is_called(table, "bob", 3.9)
    assert is_called(table, "bob", 4.0)
    assert holders(table, 4.5) == {}  # called, and not started
    assert request(table, "bob", 4.5)["until"] == 5.5


def test_without_rest_the_next_is_called_at_once():
    table = table_of(share=1.0)
    request(table, "ann", 0.0, seconds=5)
    request(table, "bob", 0.5)
    table.release("ann", 1 * S)
    assert is_called(table, "bob", 1.0)


def test_a_called_agent_that_does_not_start_loses_its_ticket_and_is_charged():
    table = table_of(share=1.0, begin_within=0.5)
    request(table, "ann", 0.0, seconds=1)
    request(table, "bob", 0.1, seconds=1)
    request(table, "cyd", 0.2, seconds=1)
    assert is_called(table, "bob", 1.4)
    assert not is_called(table, "bob", 1.5)
    assert is_called(table, "cyd", 1.5)
    assert "bob" not in table.at(2 * S).tickets


def test_each_called_ticket_lapses_at_its_own_time():
    table = table_of(begin_within=1.0)
    request(table, "ann", 0.0, [A], begin=False)
    request(table, "bob", 0.5, [B], begin=False)
    assert sorted(table.at(round(0.9 * S)).tickets) == ["ann", "bob"]
    assert sorted(table.at(1 * S).tickets) == ["bob"]
    assert not table.at(round(1.5 * S)).tickets


def test_begin_false_takes_a_ticket_alone():
    table = table_of()
    assert request(table, "ann", 0.0, begin=False)["granted"] is False
    assert is_called(table, "ann", 0.0)
    assert request(table, "ann", 0.5, begin=False)["granted"] is False
    assert request(table, "ann", 0.6)["until"] == 1.6


def test_a_request_again_does_not_extend_a_running_lease():
    table = table_of()
    request(table, "ann", 0.0, seconds=1)
    assert request(table, "ann", 0.5, seconds=1) == {"granted": True, "until": 1.0, "ahead": 0}


def test_tickets_of_other_entities_run_side_by_side():
    table = table_of()
    request(table, "ann", 0.0, [A])
    assert request(table, "bob", 0.0, [B])["granted"]
    answer = request(table, "cyd", 0.0, [A, B])
    assert (answer["granted"], answer["ahead"]) == (False, 2)
    # A later ticket of a part of them does not overtake.
    table.release("ann", S)
    assert request(table, "dan", 1.5, [A], seconds=9)["granted"] is False


def test_an_owner_that_had_its_part_goes_after_the_others():
    table = table_of(share=1.0)
    request(table, "ann", 0.0, seconds=4)
    table.release("ann", 4 * S)
    request(table, "eve", 4.0, seconds=1)
    request(table, "ann", 4.1, seconds=4)
    request(table, "bob", 4.2, seconds=1)
    table.release("eve", 5 * S)
    assert is_called(table, "bob", 5.0)
    assert not is_called(table, "ann", 5.0)


def test_the_tickets_of_one_owner_share_one_part():
    table = table_of(share=1.0)
    request(table, "eve", 0.0, seconds=1)
    for number in range(5):
        request(table, f"bot{number}", 0.1, seconds=1, owner="mob")
    request(table, "ann", 0.2, seconds=1)
    order = []
    for second in range(1, 8):
        now = float(second)
        called = [who for who in table.at(second * S).tickets if is_called(table, who, now)]
        for who in called:
            request(table, who, now)
            order.append(who)
    assert order.index("ann") == 1  # after one of the five


def test_a_release_of_nothing_changes_nothing():
    table = table_of()
    assert table.release("ann", 5) is False
    assert table.is_unused
    request(table, "ann", 0.0)
    assert not table.is_unused


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"seconds_max": 0}, "seconds_max of leases must be a number from 0.001 to 86400, got 0"),
        ({"seconds_max": "10"}, "seconds_max of leases must be a number"),
        ({"share": 0.0}, "share of leases must be a number from 0.01 to 1"),
        ({"share": 1.5}, "share of leases"),
        ({"share": float("nan")}, "share of leases"),
        ({"refs_max": 0}, "refs_max of leases must be an int from 1 to 64"),
        ({"refs_max": 2.0}, "refs_max of leases must be an int"),
        ({"tickets_max": 5_000}, "tickets_max of leases must be an int from 1 to 1000"),
        ({"begin_within": -1}, "begin_within of leases"),
        ({"refs_max": True}, "refs_max of leases"),
    ],
)
def test_settings_out_of_range_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        Leases(**settings)


def test_settings_come_back_from_whole_numbers():
    leases = Leases(seconds_max=2.5, share=0.1, refs_max=3, tickets_max=5, begin_within=0.3)
    assert Leases.of(leases.settings()) == leases


ACTIONS = st.lists(
    st.tuples(
        st.sampled_from(["request", "look", "release"]),
        st.sampled_from(["ann", "bob", "cyd", "dan"]),
        st.integers(0, 900),  # milliseconds since the action before
        st.sampled_from([[A], [B], [A, B]]),
        st.sampled_from([0.2, 1.0, 3.0]),
        st.booleans(),
    ),
    max_size=25,
)


@given(ACTIONS, st.sampled_from([0.3, 1.0]))
def test_the_table_does_not_depend_on_when_it_is_looked_at(actions, share):
    """Law: reading between the records, a copy, and a dump leave the same table.

    Two agents are never called for one entity.
    """
    table, seldom = table_of(share=share), table_of(share=share)
    now = 0
    for what, who, after, refs, seconds, begin in actions:
        now += after
        if what == "look":
            for early in (now // 2, now):
                table.at(max(early, 0) * 1_000_000)
            loaded = table_of(share=share)
            loaded.load(table.dump())
            table = loaded if begin else table.copy()
            continue
        for each in (table, seldom):
            own = each.at(now * 1_000_000).tickets.get(who)
            if what == "release":
                each.release(who, now * 1_000_000)
            elif own is None or own.refs == tuple(sorted(Ref(*ref) for ref in refs)):
                request(each, who, now / 1000, refs, seconds, begin=begin)
        assert table.dump() == seldom.dump()
        tickets = table.at(now * 1_000_000).tickets.values()
        called = [ref for ticket in tickets if ticket.called_ns is not None for ref in ticket.refs]
        assert len(called) == len(set(called))


@given(ACTIONS, st.sampled_from([0.3, 1.0]))
def test_every_waiting_agent_is_called_in_the_end(actions, share):
    """Law: no deadlock. If nobody asks again, the last ticket is gone within the stated bound."""
    table, now = table_of(share=share, begin_within=0.5), 0
    for what, who, after, refs, seconds, _ in actions:
        now += after
        own = table.at(now * 1_000_000).tickets.get(who)
        if what != "look" and (own is None or own.refs == tuple(sorted(Ref(*r) for r in refs))):
            request(table, who, now / 1000, refs, seconds)
    tickets = table.at(now * 1_000_000).tickets
    bound_ns = 2 * len(tickets) * (round(3.0 * S / share) + S // 2)
    assert not table.at(now * 1_000_000 + bound_ns).tickets
