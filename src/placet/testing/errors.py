"""The report of a violated property: its name, the trace, and the observation."""

from placet.testing.trace import Trace, TraceRunner


class PropertyViolation(AssertionError):  # noqa: N818  # what it says
    """A domain breaks a law.

    Attributes:
        law: The law, as a sentence.
        life: The life in which it is broken; the smallest that was found.
        story: The same, a line for each step.
        seen: The observation, and the remedy.
    """

    def __init__(self, law: str, life: Trace, runner: TraceRunner, seen: str) -> None:
        domain, story = runner.domain.name, runner.story
        told = "".join(f"\n  {number}. {line}" for number, line in enumerate(story, start=1))
        super().__init__(
            f"the domain {domain!r} breaks a law: {law}\n"
            f"The smallest life found in which it does:{told or ' it is only opened'}\n"
            f"{seen}"
        )
        self.law = law
        self.life = life
        self.story = tuple(story)
        self.seen = seen
