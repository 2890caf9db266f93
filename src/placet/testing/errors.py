"""The report of a violated property: its name, the trace, and the observation."""

from placet.schemas.portable_error import PortableError
from placet.testing.trace import Trace, TraceRunner


class PropertyViolation(PortableError, AssertionError):  # noqa: N818  # names the finding
    """Raised when a domain violates a property.

    Attributes:
        sentence: The property, as a sentence.
        trace: The smallest violating trace that was found.
        story: The steps of the trace, one line each.
        finding: The observed violation, and the remedy.
    """

    def __init__(self, sentence: str, trace: Trace, runner: TraceRunner, finding: str) -> None:
        domain, story = runner.domain.name, runner.story
        steps = "".join(f"\n  {number}. {line}" for number, line in enumerate(story, start=1))
        super().__init__(
            f"the domain {domain!r} violates a property: {sentence}\n"
            f"The smallest trace that violates it:{steps or ' no step'}\n"
            f"{finding}"
        )
        self.sentence = sentence
        self.trace = trace
        self.story = tuple(story)
        self.finding = finding


class ColumnViolation(PortableError, AssertionError):  # noqa: N818  # names the finding
    """Raised when a rule of rows breaks a law of column batches.

    Attributes:
        law: `A` or `B`.
        kind: The kind of the batch.
        seed: Seed of the world: `check_columns(..., seed=seed, worlds=1)` finds it again.
        finding: The difference between the two ways of deciding.
    """

    def __init__(self, law: str, kind: str, seed: int, finding: str) -> None:
        super().__init__(
            f"the rule of rows of {kind!r} breaks law {law} in the world of seed {seed}: {finding}"
        )
        self.law, self.kind, self.seed, self.finding = law, kind, seed, finding
