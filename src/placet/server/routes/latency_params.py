"""How late a stream of observations is: models of latency, as its query names them."""

from dataclasses import dataclass
from typing import Annotated

from fastapi import Query

from placet.schemas.latency import ByDistance, Constant, Latency, Uniform
from placet.server.http.problems import Problem

_Seconds = Annotated[float | None, Query(ge=0, allow_inf_nan=False)]


@dataclass(frozen=True, slots=True)
class Lateness:
    """The parameters of a query that say how late, in simulated seconds.

    Attributes:
        latency: All is shown so late; with one of the others, at least.
        latency_most: All is shown after a time drawn between the two.
        latency_per_unit: Additional latency for each unit of distance.
    """

    latency: float | None
    latency_most: float | None
    latency_per_unit: float | None

    def model(self) -> Latency | None:
        """Return the model; None is at once.

        Raises:
            Problem: There is none of these parameters.
        """
        base = self.latency or 0.0
        try:
            if self.latency_most is not None and self.latency_per_unit is not None:
                raise ValueError("latency_most or latency_per_unit, and not both")
            if self.latency_most is not None:
                return Uniform(base, self.latency_most)
        except ValueError as error:
            raise Problem("request_invalid", str(error)) from error
        if self.latency_per_unit is not None:
            return ByDistance(per_unit=self.latency_per_unit, base=base)
        return None if self.latency is None else Constant(base)


async def lateness_of(
    latency: _Seconds = None, latency_most: _Seconds = None, latency_per_unit: _Seconds = None
) -> Lateness:
    """Return the latency model of a query.

    Async, because the framework would call a plain function in a thread.
    """
    return Lateness(latency, latency_most, latency_per_unit)
