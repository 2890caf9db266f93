"""The executors of tools: each calls a function of the user, once its call is durable.

An exception does not say that nothing was done. So an `at_most_once` call whose function raised is
in doubt, unless the exception is `NotDone` or one that the tool names in `not_done`.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from inspect import iscoroutinefunction

from pydantic import ValidationError
from pydantic_core import PydanticSerializationError, to_jsonable_python

from placet.kernel.plugin.domain import EffectHandler
from placet.schemas.codec import Json
from placet.schemas.effect import DoNotRetry, Effect, OutcomeUnknown
from placet.schemas.errors import describe_error
from placet_tools.domain import ToolsDomain
from placet_tools.tool import KEY_PARAMETER, DeclaredTool, NotDone


def executors_of(domain: ToolsDomain) -> Mapping[str, EffectHandler | None]:
    """Return the executor of each tool."""
    return {domain.kind_of(tool.name): _executor(tool) for tool in domain.tools.values()}


def _executor(tool: DeclaredTool) -> EffectHandler:
    return EffectHandler(
        handler=_handler(tool),
        delivery=tool.delivery,
        # A pure function that raised would raise again; a keyed or idempotent one is retried.
        attempts_max=1 if tool.delivery == "pure" else None,
        seconds_max=tool.seconds_max,
    )


def _handler(tool: DeclaredTool) -> Json:
    """Return the function that runs one effect of a tool: async, or plain for a thread."""

    def begin(effect: Effect) -> object:
        if tool.takes_mapping:
            return tool.function(effect.payload["args"], effect.payload["key"])
        return tool.function(**_keywords(tool, effect))

    async def run(effect: Effect) -> Json:
        with _exceptions_of(tool):
            return _plain(await begin(effect))  # type: ignore[misc]  # it is async

    def run_in_thread(effect: Effect) -> Json:
        with _exceptions_of(tool):
            return _plain(begin(effect))

    return run if iscoroutinefunction(tool.function) else run_in_thread


def _keywords(tool: DeclaredTool, effect: Effect) -> dict[str, Json]:
    try:
        keywords = tool.typed(effect.payload["args"])
    except ValidationError as error:  # the function has changed since the call was admitted
        raise NotDone(f"the arguments do not fit {tool.name}: {error}") from error
    return keywords | ({KEY_PARAMETER: effect.payload["key"]} if tool.has_key else {})


@contextmanager
def _exceptions_of(tool: DeclaredTool) -> Iterator[None]:
    """Raise the exceptions of a tool as instructions for its executor."""
    try:
        yield
    except (DoNotRetry, OutcomeUnknown):
        raise
    except tool.not_done as error:
        raise NotDone(describe_error(error)) from error
    except Exception as error:
        if tool.delivery != "at_most_once":
            raise
        raise OutcomeUnknown(describe_error(error)) from error


def _plain(value: object) -> Json:
    """Return an output as plain JSON; as it is where it has none, which the record then says."""
    try:
        return to_jsonable_python(value)
    except PydanticSerializationError:
        return value
