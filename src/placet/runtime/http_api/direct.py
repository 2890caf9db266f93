"""Routes whose functions are called with the parts of their path and the request, and no more.

The framework reads parameters by their annotations, which takes a sixth of what a plan costs the
server. A function with nothing to read but its path needs none of that; where a query came, the
framework reads it as everywhere, since the function may have a default for what it does not say.
Dependencies are not asked: those of a route or its router are refused as it is made, those of an
application or an inclusion cannot be seen here.
"""

from collections.abc import Callable, Coroutine

from fastapi import Request
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute
from starlette.responses import Response


class Direct(APIRoute):
    """A route that is answered directly: its path is text, and a query has defaults."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[None, None, Response]]:
        """Give what answers a request of this route.

        Raises:
            TypeError: The route asks for more, which would not be looked at.
        """
        if _reads_more(self.dependant):
            raise TypeError(f"{self.path} reads more than its path; it cannot be answered directly")
        read_all = super().get_route_handler()
        function = self.endpoint

        async def answer(request: Request) -> Response:
            if request.scope["query_string"]:
                return await read_all(request)
            answered: Response = await function(request=request, **request.path_params)
            return answered

        return answer


def _reads_more(asked: Dependant) -> bool:
    return bool(
        asked.dependencies
        or asked.header_params
        or asked.cookie_params
        or asked.body_params
        or any(one.field_info.is_required() for one in asked.query_params)
        or any(one.field_info.annotation is not str for one in asked.path_params)
    )
