"""The property that registrations draw the same numbers in any order.

A draw depends on the agent and the moment, never on a seq or on the number of agents; but a domain
that puts such a number into the purpose of a draw makes it depend on the order of registration
again. Compared is the first draw of each registration: later ones may follow from the state, as
where a domain draws until it finds a free place.
"""

from itertools import takewhile

from placet.kernel.log.replay import Divergence
from placet.kernel.log.verify import Verifier
from placet.schemas.log.record import Registered
from placet.testing.trace import Factory, Join, Trace, TraceRunner


def registration_breach(runner: TraceRunner, trace: Trace, factory: Factory) -> str | None:
    """Register the first agents of a trace in both orders, and describe another first draw."""
    joins = list(takewhile(lambda step: isinstance(step, Join), trace))
    forward = _first_draws(runner.run_all(joins), factory)
    backward = _first_draws(TraceRunner(factory).run_all(joins[::-1]), factory)
    for agent_id, there in forward.items():
        here = backward.get(agent_id, there)
        if there != here:
            return (
                f"{agent_id} first draws {_text(there)}; registered in the opposite order, it "
                f"first draws {_text(here)}. Agent and moment are part of every draw: name what is "
                "drawn, and use no seq and no count of agents."
            )
    return None


def _first_draws(runner: TraceRunner, factory: Factory) -> dict[str, tuple[str, float]]:
    """Return `(purpose, number)` of the first draw of each agent's first registration."""
    draws: dict[str, tuple[str, float]] = {}
    again = Verifier([factory()])
    try:
        for data in runner.log:
            record = again.apply(data)
            if isinstance(record, Registered) and again.drawn:
                first = again.drawn[0]
                draws.setdefault(record.agent_id, (first.purpose, first.value))
    except Divergence:  # `re_execution_gives_the_same_log` reports it
        return {}
    return draws


def _text(draw: tuple[str, float]) -> str:
    return f"{draw[1]:g} as {draw[0]!r}"
