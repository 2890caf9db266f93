"""Refused requests that intents note."""

from placet.kernel.plugin.noted_refusals import NotedRefusal, noted_refusals


def test_intents_of_the_kind_note_requests_and_others_none():
    calls = [{"key": "t1", "tool": "refund"}, {"key": "t2", "tool": "refund"}]
    intents = [
        {"kind": "shop.refund", "payload": {}},
        {"kind": "shop.refuse_calls", "payload": {"agent": "ann", "calls": calls}},
    ]
    assert list(noted_refusals(intents)) == [NotedRefusal("ann", call) for call in calls]
