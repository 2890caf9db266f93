"""The bounds of an answer of a model's server: its bytes, its encoding, and no redirect.

The client of a provider reads an answer whole, follows redirects, and decodes compressed bodies.
So a server could take this process's memory by one long or compressed answer, and send a request
with its key to another address. Each answer is checked here before its body is read.
"""

from collections.abc import AsyncIterator, Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from pydantic_ai.models import Model

from placet.schemas.limits import MODEL_ANSWER_BYTES_MAX

if TYPE_CHECKING:
    import httpx
    import httpx2
    from pydantic_ai.providers import Provider

    Client = httpx.AsyncClient | httpx2.AsyncClient

_TOO_LONG: Final = (
    f"{{at}} sent an answer of more than {MODEL_ANSWER_BYTES_MAX} bytes, which was not read to its "
    "end: check that it is a model's server, or limit the tokens of its answers"
)
_REDIRECTED: Final = (
    "{at} redirects the request, and a key is sent to no other address: set base_url to the "
    "address that answers"
)
_ENCODED: Final = (
    "{at} sent a compressed answer although none was asked for, which was not read: turn "
    "compression off in the server or its proxy"
)


class AnswerRefusedError(Exception):
    """An answer of a model's server was not read; its text has `{at}` for the server."""


def bound_answers(model: Model) -> None:
    """Bound the answers that the HTTP client of a model's provider reads.

    A client that the caller made and passed to the provider stays as it is, and so does a provider
    that uses no HTTP client of Python.

    Args:
        model: The model, not entered.
    """
    provider: Provider[Any] | None = getattr(model, "_provider", None)
    if provider is None or provider._own_http_client is None:  # noqa: SLF001  # no public name
        return
    factory = provider._http_client_factory  # noqa: SLF001  # makes the next after a close
    assert factory is not None, "a provider that owns a client can make the next one"
    _bound(provider._own_http_client)  # noqa: SLF001
    provider._http_client_factory = lambda: _bound(factory())  # noqa: SLF001


def refused_answer(error: BaseException) -> AnswerRefusedError | None:
    """Return the refusal of an answer among the causes of an error; None if there is none."""
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, AnswerRefusedError):
        cause = cause.__cause__ or cause.__context__
    return cause


def _bound(client: "Client") -> "Client":
    """Check each answer that a client receives, and return the client."""
    stream_class = _bounded_stream(type(client).__module__.partition(".")[0])

    async def check(response: "httpx2.Response") -> None:
        if response.has_redirect_location:
            raise AnswerRefusedError(_REDIRECTED)
        if response.headers.get("content-encoding", "identity") != "identity":
            raise AnswerRefusedError(_ENCODED)
        length = response.headers.get("content-length", "")
        if length.isdecimal() and int(length) > MODEL_ANSWER_BYTES_MAX:
            raise AnswerRefusedError(_TOO_LONG)
        stream: Any = response.stream
        response.stream = stream_class(stream)

    client.follow_redirects = False
    client.headers["accept-encoding"] = "identity"
    hooks = client.event_hooks
    client.event_hooks = {**hooks, "response": [check, *hooks.get("response", ())]}
    return client


def _bounded_stream(library: str) -> "Callable[[httpx2.AsyncByteStream], httpx2.AsyncByteStream]":
    """Return a class of streams of httpx, or of its successor, that end at the bound of bytes."""
    base: Any = import_module(library).AsyncByteStream

    class BoundedStream(base):  # type: ignore[misc]  # two libraries have the same interface
        def __init__(self, stream: "httpx2.AsyncByteStream") -> None:
            self._stream = stream

        async def __aiter__(self) -> AsyncIterator[bytes]:
            left = MODEL_ANSWER_BYTES_MAX
            async for chunk in self._stream:
                left -= len(chunk)
                if left < 0:
                    raise AnswerRefusedError(_TOO_LONG)
                yield chunk

        async def aclose(self) -> None:
            await self._stream.aclose()

    return BoundedStream
