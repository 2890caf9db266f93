"""The domain `approvals` passes the property tests."""

from hypothesis import strategies as st

from placet.domains.approvals import Approvals
from placet.kernel.plugin.approved import AMEND, ASK, DECIDE, PREVIEW
from placet.testing import domain_property_tests
from tests.levels import examples

IDS = st.sampled_from(["q1", "q2", "q3"])
INTENTS = st.lists(
    st.fixed_dictionaries(
        {
            "agent": st.sampled_from(["ann", "bob"]),
            "key": st.sampled_from(["k1", "k2", "k3"]),
            "kind": st.just(ASK),
            "payload": st.dictionaries(st.just("n"), st.integers(0, 2)),
        }
    ),
    min_size=1,
    max_size=2,
)
REQUEST = st.fixed_dictionaries(
    {
        "id": IDS,
        "agent": st.sampled_from(["ann", "bob"]),
        "intents": INTENTS,
        "about": st.just({}),
        "risk": st.just("low"),
        "foreseen": st.just(""),
        "undecided": st.just([[], []]),
        "unshown": st.just([]),
        "shown": st.just([]),
        "role": st.sampled_from(["operator", ""]),
        "seconds": st.sampled_from([1.0, 600.0]),
    }
)


class Unguarded(Approvals):
    """Lets every agent record, since the traces have no recorder."""

    def __init__(self, *, kept=2):
        super().__init__(kept=kept)
        kinds = []
        for kind in self.kinds:

            def rule(draft, intent, guarded=kind.rule):
                return guarded(draft, {**intent, "agent_id": "approvals.recorder"})

            kinds.append(type(kind)(kind.name, kind.payload, rule, summary=kind.summary))
        self.kinds = tuple(kinds)  # type: ignore[assignment]  # of the same names


TestApprovals = domain_property_tests(Approvals, examples=examples(10))
TestUnguarded = domain_property_tests(
    Unguarded,
    intents={
        ASK: REQUEST,
        PREVIEW: st.fixed_dictionaries({"id": IDS}),
        DECIDE: st.fixed_dictionaries(
            {
                "id": IDS,
                "decision": st.sampled_from(["approve", "deny", "expire", "stale"]),
                "by": st.sampled_from(["ann", "eve"]),
                "role": st.just("operator"),
                "digest": st.just(""),
                "reason": st.just(""),
            }
        ),
        AMEND: st.fixed_dictionaries(
            {
                "id": IDS,
                "by": st.sampled_from(["ann", "eve"]),
                "role": st.just("operator"),
                "digest": st.just(""),
                "reason": st.just(""),
                "request": REQUEST,
            }
        ),
    },
    examples=examples(30),
    # Every agent is the recorder here, which asks for others and may see no request.
    without=["read_sets_are_complete", "hidden_changes_alter_no_answer"],
)
