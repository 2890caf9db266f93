"""An intent is approved in the batch of the decision, for exactly its agent, kind and payload."""

import pytest

from placet.kernel import Kernel, Kind, is_approved, refuse
from placet.kernel.plugin.approved import APPROVING, INTENTS, REQUESTS, digest_of, key_of
from placet.kernel.plugin.domain import Domain
from placet.schemas.intent import new_intent


class Shop(Domain):
    """One kind that needs an approval, and one that stands for the domain `approvals`."""

    name = "shop"
    version = "1"

    def __init__(self, state=APPROVING, role=None, digest=None):
        def permit(draft, intent):
            content = digest or digest_of("shop.Pay", {"euro": 5}, "ann")
            draft.create(REQUESTS, "r1", {"state": state, "role": "operator"})
            draft.create(INTENTS, "k", {"request": "r1", "digest": content})

        def pay(draft, intent):
            if not is_approved(draft, intent, role=role):
                return refuse("approval_required", "a person approves it")
            return None

        self.writes = ("approvals",)
        self.kinds = (Kind("shop.Permit", dict, permit), Kind("shop.Pay", dict, pay))


def codes(domain, *, req_id="k/1", payload=None, agent="ann", permits=True):
    kernel = Kernel(domain)
    kernel.register_agent("ann")
    kernel.register_agent("bob")
    intents = [new_intent("shop.Permit", {}, "bob", "p", 0)] if permits else []
    pay = new_intent("shop.Pay", payload or {"euro": 5}, agent, req_id, 0)
    return kernel.decide([*intents, pay], 0.0).codes


def test_an_intent_is_approved_in_the_batch_of_its_decision():
    assert codes(Shop()) == ()
    assert codes(Shop(role="operator")) == ()


@pytest.mark.parametrize(
    ("domain", "intent"),
    [
        (Shop(), {"permits": False}),
        (Shop("approved"), {}),
        (Shop("open"), {}),
        (Shop(role="manager"), {}),
        (Shop(), {"payload": {"euro": 6}}),
        (Shop(), {"agent": "bob"}),
        (Shop(), {"req_id": "other/1"}),
        (Shop(digest=digest_of("shop.Other", {"euro": 5}, "ann")), {}),
    ],
)
def test_any_other_intent_is_not_approved(domain, intent):
    assert codes(domain, **intent) == ("shop.approval_required",)


@pytest.mark.parametrize(
    ("req_id", "key"), [("a", "a"), ("a/b", "a"), ("a/b/c", "a/b"), ("/b", "/b")]
)
def test_the_key_is_the_part_before_the_last_slash(req_id, key):
    assert key_of(req_id) == key
