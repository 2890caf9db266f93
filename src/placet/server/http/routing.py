"""The tables of routes: functions by path and method, each with its description for OpenAPI.

A table makes one Starlette route for each path, so that 405, `Allow` and HEAD are Starlette's own.
A function is called with the request and the parts of its path, by name; one with an argument
`query` also gets the query parameters, as the struct that its annotation names. A parameter that
the route does not have, or one that is sent twice, is refused. A function returns a response, or
the JSON value of the route's own answer.
"""

from collections.abc import Awaitable, Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias, TypeVar

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from placet.schemas.codec import Json
from placet.server.http.parameters import Fields, read_query
from placet.server.http.responses import json_response
from placet.server.wire_schemas import EXAMPLES

if TYPE_CHECKING:
    from placet.server.http.reads import Reads

API_PREFIX: Final = "/api/v1"
WORLD_PREFIX: Final = API_PREFIX + "/worlds/{world}"
OF_WORLD: Final = (401, 403, 404, 503)
"""Statuses of the problems of most routes of a world: its token, its role, its name, its store."""

_PART_BYTES: Final = 256 * 1024

Answers: TypeAlias = Mapping[int, Mapping[str, Json]]
"""Status -> its OpenAPI response object."""

Function = TypeVar("Function", bound=Callable[..., Awaitable[Any]])


class Body(NamedTuple):
    """The JSON body of an operation.

    Attributes:
        schema: The struct that reads the body, the name of an OpenAPI schema, or a JSON Schema.
        examples: Examples by name.
        is_optional: A request without a body is permitted.
    """

    schema: type[Fields] | str | Mapping[str, Json]
    examples: Mapping[str, Json] = {}
    is_optional: bool = False


class Operation(NamedTuple):
    """One method of one path: the function that answers it, and its OpenAPI description.

    Attributes:
        function: Called with the request, the parts of the path, and `query` if it is declared. Its
            name is the `operationId`, its docstring the description.
        tag: The group of the operation.
        summary: Title of a few words.
        answer: Name of the schema of the route's own answer, `text/plain`, or empty for no body; or
            the OpenAPI response objects of all statuses.
        status: Status of the route's own answer.
        problems: Statuses of problem documents.
        query: Struct of the query parameters; None for no parameters.
        body: The body; None for no body.
        headers: Optional headers of the request, name -> JSON Schema.
        is_read: The request is admitted and charged as a read of its caller.
        is_question: The read is a question to the past.
    """

    function: Callable[..., Awaitable[Any]]
    tag: str
    summary: str
    answer: str | Answers
    status: int
    problems: tuple[int, ...]
    query: type[Fields] | None
    body: Body | None
    headers: Mapping[str, Mapping[str, Json]]
    is_read: bool
    is_question: bool


class ApiRoute(Route):
    """A route of one path, with its operations by method.

    Attributes:
        operations: The operations by method; GET answers HEAD too.
        is_hot: The path is requested often, so it is matched before others.
    """

    def __init__(self, path: str, operations: Mapping[str, Operation], *, is_hot: bool) -> None:
        self.operations = operations
        self.is_hot = is_hot
        super().__init__(path, _Endpoint(operations), methods=list(operations))


class Routes:
    """A table of routes, to which functions are registered by a decorator.

    Args:
        tag: OpenAPI tag of its operations.
        prefix: Prefix of every path.
        are_questions: Its operations are questions to the past, and none of them is free.
    """

    def __init__(self, tag: str, prefix: str = API_PREFIX, *, are_questions: bool = False) -> None:
        self._are_questions = are_questions
        self._tag = tag
        self._prefix = prefix
        self._paths: dict[str, dict[str, Operation]] = {}
        self._hot: set[str] = set()

    def on(
        self,
        method: str,
        path: str,
        summary: str,
        answer: str | Answers,
        *problems: int,
        status: int = 200,
        body: Body | type[Fields] | None = None,
        headers: Mapping[str, Mapping[str, Json]] = MappingProxyType({}),
        is_hot: bool = False,
        is_read: bool | None = None,
    ) -> Callable[[Function], Function]:
        """Return a decorator that registers a function for a method of a path, as an `Operation`.

        Args:
            method: HTTP method in capitals.
            path: Path after the prefix, with parameters in Starlette's form.
            summary: Title of a few words.
            answer: Name of the schema of the route's own answer, `text/plain`, or empty for no
                body; or the OpenAPI response objects of all statuses.
            problems: Statuses of problem documents, besides 422 and those of a body; 200 beside
                another `status` has the answer's own schema.
            status: Status of the route's own answer.
            body: The body, or its struct alone; None for no body.
            headers: Optional headers of the request, name -> JSON Schema.
            is_hot: The path is requested often, so it is matched before others.
            is_read: The request is admitted and charged as a read of its caller; None for every
                GET. The gate counts batches, and the operator's control is never refused for load.
        """
        path = self._prefix + path
        if is_hot:
            self._hot.add(path)
        if isinstance(body, type):
            body = Body(body, EXAMPLES.get(body.__name__, {}))

        def register(function: Function) -> Function:
            operations = self._paths.setdefault(path, {})
            assert method not in operations, f"{method} {path} has a function"
            operations[method] = Operation(
                function,
                self._tag,
                summary,
                answer,
                status,
                problems,
                function.__annotations__.get("query"),
                body,
                headers,
                self._are_questions or method == "GET" if is_read is None else is_read,
                self._are_questions,
            )
            return function

        return register

    def routes(self) -> list[ApiRoute]:
        """Return a route for each path, in the order in which the paths were registered."""
        return [
            ApiRoute(path, operations, is_hot=path in self._hot)
            for path, operations in self._paths.items()
        ]


class _Endpoint:
    """The operations of one path as an ASGI application."""

    def __init__(self, operations: Mapping[str, Operation]) -> None:
        self._operations = dict(operations)
        if "GET" in operations:
            self._operations["HEAD"] = operations["GET"]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        operation = self._operations[scope["method"]]
        request = Request(scope, receive, send)
        given = dict(scope["path_params"])
        if operation.query is not None:
            given["query"] = read_query(scope["query_string"], operation.query)
        elif scope["query_string"]:
            read_query(scope["query_string"], Fields)  # which has none
        # The name to which the read is charged; None without a known token.
        caller = request.app.state.context.caller(request) if operation.is_read else None
        if caller is None:
            response = _response(await operation.function(request=request, **given), operation)
            await response(scope, receive, send)
            return
        reads: Reads = request.app.state.context.reads
        is_question = operation.is_question
        async with reads.admitted(caller, is_question=is_question):
            async with reads.turn(caller, is_question=is_question):
                response = _response(await operation.function(request=request, **given), operation)
                reads.charge(caller, size=len(response.body), is_question=is_question)
            await _send_in_parts(response, send)


def _response(answer: Json, operation: Operation) -> Response:
    """Return an answer as a response: JSON, which may be encoded already; None has no body."""
    if isinstance(answer, Response):
        return answer
    if answer is None:
        return Response(status_code=operation.status)
    return json_response(answer, operation.status)


async def _send_in_parts(response: Response, send: Send) -> None:
    """Send a response so that the server waits for its client between two parts of the body."""
    status, headers, body = response.status_code, response.raw_headers, response.body
    await send({"type": "http.response.start", "status": status, "headers": headers})
    for at in range(0, len(body), _PART_BYTES):
        part, is_more = body[at : at + _PART_BYTES], at + _PART_BYTES < len(body)
        await send({"type": "http.response.body", "body": part, "more_body": is_more})
    if not body:
        await send({"type": "http.response.body", "body": b""})
