"""Adapters by the name that a person types: `scripted`, `human`, or a model."""

from collections.abc import Callable, Sequence

from placet.agents.adapters.human import HumanAdapter
from placet.agents.proposal.adapter import Adapter, PlannerInput, PlannerOutput
from placet.cli.terminal import CommandError
from placet.frontends.offline_adapter import OfflineAdapter

NAMES: Sequence[str] = ("scripted", "human")


class TerminalHumanAdapter(HumanAdapter):
    """A human proposer at a terminal, with a callback that shows each question.

    Attributes:
        on_question: Called with the context of each question, in the thread of the world.
    """

    def __init__(self) -> None:
        super().__init__()
        self.on_question: Callable[[PlannerInput], None] = _nobody

    async def propose(self, context: PlannerInput) -> PlannerOutput:
        """Call `on_question`, wait for the person, and return the person's proposal."""
        self.on_question(context)
        return await super().propose(context)


def proposer(name: str, price: Sequence[float] | None = None) -> Adapter:
    """Return the proposer adapter of this name.

    Args:
        name: `scripted` parses plain sentences offline, `human` asks a person, any other name is
            that of a model, such as `anthropic:claude-sonnet-4-5`.
        price: US dollars for a million tokens of the model: input, output, and of cached input if
            that differs; None for the price list.

    Raises:
        CommandError: There is no such adapter, the price is not for a model, or invalid; or the
            extra `llm` is not installed.
    """
    if price is not None and name in NAMES:
        raise CommandError(f"a price is that of a model, and {name!r} costs nothing; leave it out")
    if name == "scripted":
        return OfflineAdapter()
    if name == "human":
        return TerminalHumanAdapter()
    try:
        from placet.agents import Llm, Prices  # noqa: PLC0415  # the extra
    except (ImportError, AttributeError) as error:
        raise CommandError(
            f"{name!r} is neither {' nor '.join(NAMES)}, and models need a package that is not "
            "installed: "
            f"pip install 'placet[llm]' ({error})"
        ) from error
    try:
        model: Adapter = Llm(name, prices=None if price is None else Prices(*price))
    except (ImportError, ValueError) as error:
        raise CommandError(f"the model {name!r} cannot be asked: {error}") from error
    return model


def _nobody(_context: PlannerInput) -> None:
    """Send no notification: open questions are in the list."""
