"""The undecided part of a dry run: decide the batch again as at other moments, by other draws.

A batch whose rules read neither draws nor the moment does the same whenever it is decided at this
state, and is decided once. Any other is decided four times more. Draws are the lowest, then the
highest, then those of another seed: so a branch on one draw is taken both ways, however rare it is.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Final, NamedTuple

from placet.kernel.commit.commit import DecisionRecorder
from placet.kernel.context import GateContext
from placet.kernel.gate.domain_rules import DomainRules
from placet.kernel.plugin.boundary import PluginError
from placet.kernel.prng import random_u64
from placet.kernel.state.draft import Draws
from placet.schemas.batch import CheckedBatch
from placet.schemas.codec import ENCODE_ERRORS, Json, canonical
from placet.schemas.limits import SECOND_NS
from placet.schemas.verdict import Verdict

if TYPE_CHECKING:
    from placet.schemas.foreseen import Preview


class _Probe(NamedTuple):
    """Another moment at which a batch is decided, and its draws.

    Attributes:
        intents: Intents by which the batch is later.
        ticks: Ticks by which it is later.
        ns: Simulated nanoseconds by which it is later.
        bits: The 64 bits of the first draws of each intent; None for draws of another seed.
    """

    intents: int
    ticks: int
    ns: int
    bits: int | None


_PROBES: Final = (
    _Probe(1, 0, 0, 0),
    _Probe(2, 1, SECOND_NS + 1, 2**64 - 1),
    _Probe(3, 2, 61 * SECOND_NS + 7, None),
    _Probe(1_009, 61, 90_061 * SECOND_NS + 13, None),
)
"""At this moment, a second, a minute and a day later: a rule may refuse a late batch."""

_EXTREME_DRAWS_MAX: Final = 32
"""Extreme draws of one intent: a rule that draws until a number fits must come to an end."""

_OTHER_SEED: Final = 0x5EED

_RULES: Final = DomainRules()
"""Reports no fault, and calls no validator of the host: the first decision did."""


def show_undecided(
    verdict: Verdict, batch: CheckedBatch, context: GateContext, recorder: DecisionRecorder
) -> None:
    """Mark the undecided values of an admitted dry run in its verdict.

    Args:
        verdict: The verdict, with the changes of the first decision, which is undone.
        batch: The batch.
        context: The world; it is left as it is.
        recorder: Notes the work of each further decision.
    """
    draft = context.transaction
    if not draft.reads_moment:
        return
    outputs = [draft.outputs or {}]
    previews: list[Preview] = []
    work = draft.work
    for probe in _PROBES:
        batch.reparse()  # a rule may have written into the intents
        with draft.elsewhere(batch, probe.ns, probe.ticks, _draws_of(probe)):
            # A batch that is refused at that moment shows nothing about this one.
            with suppress(PluginError, *ENCODE_ERRORS):
                if _RULES.check(batch, context, probe.intents) is None:
                    preview, output = draft.preview(), draft.outputs or {}
                    canonical([preview, list(output.values())])  # no record holds it otherwise
                    previews.append(preview)
                    outputs.append(output)
            recorder.note_unpaid(batch)
            work += draft.work
    draft.work = work  # the group's bound counts all of them
    verdict.foresee(previews, _different(outputs))


def _different(outputs: Sequence[Mapping[int, Json]]) -> list[int]:
    """Return the positions of the intents whose output is not the same in all decisions."""
    positions = dict.fromkeys(position for output in outputs for position in output)
    return [
        position
        for position in positions
        if len({canonical(output.get(position)) for output in outputs}) > 1
    ]


def _draws_of(probe: _Probe) -> Draws:
    """Return the draws of a probe: extreme ones first, then those of another seed."""
    counts: Counter[int] = Counter()

    def bits(rank: int, purpose: str, agent_id: str) -> int:
        counts[rank] += 1
        if probe.bits is not None and counts[rank] <= _EXTREME_DRAWS_MAX:
            return probe.bits
        return random_u64(_OTHER_SEED, probe.ticks, probe.ns, rank, purpose, agent_id)

    return bits
