"""The rule of a kind as the registry wraps it: charges of work and cost, and read-only kinds."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, cast

from placet.kernel.plugin.domain import Domain, Kind, Rule, RuleRefusal
from placet.schemas.errors import DomainError
from placet.schemas.intent import Intent

if TYPE_CHECKING:
    from placet.kernel.state.draft import Draft
    from placet.kernel.state.transaction import Transaction


def with_work(kind: Kind) -> Rule:
    """Return the rule of a kind, which charges the kind's declared work first."""
    rule, work = kind.rule, kind.work
    if work == 0:
        return rule

    def charged_rule(draft: "Draft", intent: Intent) -> RuleRefusal | None:
        draft.charge(work(intent["payload"]) if callable(work) else work)
        return rule(draft, intent)

    return charged_rule


def read_only(rule: Rule) -> Rule:
    """Return the rule of a read-only kind, which may return output and emit effects.

    It raises `TypeError` if the intent changed the state or an agent, or claimed something.
    """

    def read_only_rule(draft: "Draft", intent: Intent) -> RuleRefusal | None:
        transaction = cast("Transaction", draft)
        before = transaction.mark_here()
        returned = rule(draft, intent)
        if returned is None and before[:4] != transaction.mark_here()[:4]:  # the fifth: effects
            raise TypeError("the rule of a read-only kind must change nothing")
        return returned

    return read_only_rule


def with_cost(
    rule: Rule,
    kind: Kind,
    domains: Sequence[Domain],
    require_own_writes: "Callable[[Domain, Draft, int], None]",
) -> Rule:
    """Return the rule of a kind with a cost, which domains charge first by `on_cost`.

    Raises:
        DomainError: The kind has a rule of rows.
    """
    if kind.rows is not None:
        raise DomainError(
            f"kind {kind.name!r} has a rule of rows and a cost, which domain {domains[0].name!r} "
            "cannot charge to a row; leave one of them out"
        )

    def paid_rule(draft: "Draft", intent: Intent) -> RuleRefusal | None:
        for domain in domains:
            since = draft.writes_count
            refused = domain.on_cost(draft, intent, kind.cost)
            require_own_writes(domain, draft, since)
            if refused is not None:
                return refused
        return rule(draft, intent)

    return paid_rule
