"""The seed's face of submitting: a refusal is raised. The operator and every handle have it."""

from collections.abc import Iterable, Mapping

from placet.schemas.codec import Json
from placet.schemas.errors import error_of
from placet.schemas.verdict import Verdict


class RaisesRefusals:
    """`submit_intents` and `submit_intent`, for any class with `submit`."""

    __slots__ = ()

    async def submit(self, batch: object, *, dry_run: bool = False) -> Verdict:
        """Submit a batch; never raises for a refusal."""
        raise NotImplementedError

    async def submit_intents(
        self, intents: Iterable[Mapping[str, Json]], sim_time: float | None = None
    ) -> list[str]:
        """Submit intents that pass or fail together, and give their req_ids.

        Args:
            intents: 1 to 512 intents.
            sim_time: When to decide, in simulated seconds; None, or a past time, means now.

        Raises:
            PlacetError: The subclass that stands for the first refusal.
        """
        given: object = intents  # anything may come; what is no list is refused by structure
        if isinstance(given, Iterable) and not isinstance(given, Mapping | str | bytes):
            given = list(given)
        verdict = await self.submit({"intents": given, "sim_time": sim_time})
        if not verdict.admitted:
            raise error_of(verdict)
        return verdict.req_ids

    async def submit_intent(self, intent: Mapping[str, Json], sim_time: float | None = None) -> str:
        """Submit one intent and give its req_id.

        Raises:
            PlacetError: The subclass that stands for the refusal.
        """
        return (await self.submit_intents([intent], sim_time))[0]
