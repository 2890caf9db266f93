"""Routes that are answered without the framework's reading of parameters."""

from typing import Annotated

import pytest
from fastapi import APIRouter, Depends, Header, Request
from starlette.responses import Response

from placet.runtime.http_api.direct import Direct


async def with_a_header(part: str, request: Request, by: Annotated[str, Header()] = "") -> Response:
    return Response(part + by)


async def with_a_needed_query(part: str, request: Request, count: int) -> Response:
    return Response(part * count)


async def with_a_number(part: int, request: Request) -> Response:
    return Response(str(part))


async def with_a_path(part: str, request: Request) -> Response:
    return Response(part)


@pytest.mark.parametrize("function", [with_a_header, with_a_needed_query, with_a_number])
def test_what_would_not_be_read_is_refused_as_the_route_is_made(function):
    with pytest.raises(TypeError, match="reads more than its path"):
        APIRouter(route_class=Direct).post("/{part}")(function)


def test_a_dependency_is_not_passed_by():
    """It may be what lets nobody in."""
    router = APIRouter(route_class=Direct)
    with pytest.raises(TypeError, match="reads more than its path"):
        router.post("/{part}", dependencies=[Depends(list)])(with_a_path)
    guarded = APIRouter(route_class=Direct, dependencies=[Depends(list)])
    with pytest.raises(TypeError, match="reads more than its path"):
        guarded.post("/{part}")(with_a_path)
