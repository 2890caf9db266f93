"""The executors of tools: each calls a function of the user, once its call is durable.

An exception does not say that nothing was done. So an `at_most_once` call whose function raised is
in doubt, unless the exception is `NotDone` or one that the tool names in `not_done`. The same holds
for an exception of the gate itself, once the function has begun, and for `BaseException`: the exit
or the interrupt that a function raises does not stop the world.
"""

import asyncio
from collections.abc import Callable, Mapping
from functools import partial
from inspect import iscoroutinefunction, isgenerator
from typing import Final, TypeVar

from anyio import to_thread
from pydantic import ValidationError
from pydantic_core import PydanticSerializationError, to_jsonable_python

from placet.kernel.plugin.domain import EffectHandler
from placet.schemas.codec import Json
from placet.schemas.effect import DoNotRetry, Effect, OutcomeUnknown, RetryAfter
from placet.schemas.errors import TEXT_CHARS_MAX, PlacetError, describe_error
from placet_tools.domain import ToolsDomain
from placet_tools.frontend.claims import executors_of as waiting_executors_of
from placet_tools.frontend.parts.frames import without_variables
from placet_tools.frontend.parts.opening import values_of
from placet_tools.frontend.parts.part_store import PartMissing
from placet_tools.frontend.parts.sealed_values import SealedValues, without_secrets
from placet_tools.frontend.parts.secrets_in_memory import SecretMissing
from placet_tools.tool import KEY_PARAMETER, DeclaredTool, NotDone, faults_of

SECRET_WAIT_S: Final = 10.0
"""Pause before the next attempt at a call whose secret is not here, seconds."""

_TOO_DEEP: Final = ("Circular reference", "Maximum serialization depth")
"""Begin of the messages of pydantic about a value that contains itself, or a thousand others."""

_T = TypeVar("_T")


class ToolRaised(PlacetError):  # noqa: N818  # the name states the fault
    """The error of a function of which the own exception may have values in its text."""


def executors_of(domain: ToolsDomain) -> Mapping[str, EffectHandler | None]:
    """Return the executor of each tool; a tool with marks has none without the values of a gate."""
    if domain.runs_on_workers:
        return waiting_executors_of(domain)
    values = values_of(domain)
    return {
        domain.kind_of(tool.name): None
        if tool.marks and values is None
        else _executor(tool, values)
        for tool in domain.tools.values()
    }


def _executor(tool: DeclaredTool, values: SealedValues | None) -> EffectHandler:
    return EffectHandler(
        handler=handler_of(tool, values),
        delivery=tool.delivery,
        # A pure function that raised would raise again; a keyed or idempotent one is retried.
        attempts_max=1 if tool.delivery == "pure" else None,
        seconds_max=tool.seconds_max,
    )


def handler_of(tool: DeclaredTool, values: SealedValues | None) -> Json:
    """Return the function that runs one effect of a tool: async, or plain for a thread."""

    async def run(effect: Effect) -> Json:
        call = _Call(tool, values, effect)
        begin = await call.in_thread(call.prepared)
        try:
            output = _plain(await begin())  # type: ignore[misc]  # it is async
            has_io = not call.is_plain(output)
            return await call.in_thread(partial(call.output, output), has_io=has_io)
        except BaseException as error:
            if _stops(error):
                raise
            failure = await call.in_thread(partial(call.failure, error))
            if failure is error:
                raise
            raise failure from call.cause(error)

    def run_in_thread(effect: Effect) -> Json:
        call = _Call(tool, values, effect)
        begin = call.prepared()
        try:
            return call.output(_plain(begin()))
        except BaseException as error:
            failure = call.failure(error)
            if failure is error:
                raise
            raise failure from call.cause(error)

    handler = run if iscoroutinefunction(tool.function) else run_in_thread
    return without_variables(handler) if tool.marks else handler


class _Call:
    """One attempt at a call: its arguments, and its result as the log holds it."""

    def __init__(self, tool: DeclaredTool, values: SealedValues | None, effect: Effect) -> None:
        self._tool = tool
        self._values = values
        self._payload = effect.payload
        self._secrets: list[str] = []

    async def in_thread(self, act: Callable[[], _T], *, has_io: bool = False) -> _T:
        """Call a function: in a thread if it reads or writes the part store."""
        return await to_thread.run_sync(act) if has_io or self._tool.marks else act()

    def prepared(self) -> Callable[[], object]:
        """Return the function of the tool with its arguments.

        Raises:
            NotDone, RetryAfter: The call cannot run.
        """
        tool, arguments = self._tool, self._payload["args"]
        if tool.takes_mapping:
            return partial(tool.function, arguments, self._payload["key"])
        try:
            if self._values is not None:
                arguments = self._values.arguments(tool, self._payload)
                self._secrets = self._values.secrets_of(tool, self._payload)
            keywords = tool.typed(arguments)
        except SecretMissing:
            raise _without_secret(tool) from None
        except PartMissing as error:
            raise NotDone(f"personal data of the call are {error}, so it does not run") from None
        except ValidationError as error:  # the function has changed since the call was admitted
            why = f"{faults_of(error)}" if tool.marks else f"{error}"
            message = f"the arguments do not fit {tool.name}: {why}"
            raise NotDone(message) from self.cause(error)
        if tool.has_key:
            keywords[KEY_PARAMETER] = self._payload["key"]
        return partial(tool.function, **keywords)

    def is_plain(self, output: Json) -> bool:
        """Return whether the log may hold an output as it is."""
        return self._values is None or self._values.is_plain(self._tool, output)

    def output(self, output: Json) -> Json:
        """Return the output of the function as the log holds it."""
        if self._values is None:
            return output
        return self._values.output(self._tool, self._payload, output, self._secrets)

    def failure(self, error: BaseException) -> BaseException:
        """Return the exception of a function as an instruction for its executor."""
        try:
            return self._failure(error)
        except BaseException as own:  # noqa: BLE001  # the function has begun, so it may be done
            return OutcomeUnknown(
                f"it raised {type(error).__name__}, which the gate cannot read: "
                f"{type(own).__name__}"
            )

    def _failure(self, error: BaseException) -> BaseException:
        tool = self._tool
        text = self._text_of(error) if tool.marks else describe_error(error)
        if isinstance(error, DoNotRetry):
            return NotDone(text) if tool.marks else error
        if isinstance(error, OutcomeUnknown):
            return OutcomeUnknown(text) if tool.marks else error
        if isinstance(error, tool.not_done):
            return NotDone(text)
        if tool.delivery == "at_most_once":
            return OutcomeUnknown(text)
        if isinstance(error, Exception) and not tool.marks:
            return error
        return (
            RetryAfter(error.seconds, text) if isinstance(error, RetryAfter) else ToolRaised(text)
        )

    def _text_of(self, error: BaseException) -> str:
        """Return the text of an exception as the log holds it, cut where no secret is cut."""
        whole = without_secrets(describe_error(error, chars_max=None), self._secrets)
        return str(self.output(whole[:TEXT_CHARS_MAX]))

    def cause(self, error: BaseException) -> BaseException | None:
        """Return the cause of a failure: not an exception whose text may have values."""
        return None if self._tool.marks else error


class BytesNotUtf8:
    """Stands for an output with bytes that are no text: a log would have them, encoded."""


def _stops(error: BaseException) -> bool:
    """Return whether an exception stops the handler from outside, and is not of the function.

    These are a cancellation of the task, and the `GeneratorExit` of a coroutine that is closed: it
    is raised in the frame of the handler, where that of a function comes from a deeper frame.
    """
    if isinstance(error, GeneratorExit):
        return error.__traceback__ is None or error.__traceback__.tb_next is None
    task = asyncio.current_task()
    is_canceled = task is not None and task.cancelling() > 0
    return is_canceled and isinstance(error, asyncio.CancelledError)


def _without_secret(tool: DeclaredTool) -> PlacetError:
    """Return the failure of a call whose secret another process had."""
    if tool.delivery in {"pure", "at_most_once"}:  # an attempt that was begun is not begun again
        return NotDone("the secret is not here: call again with a new key and the value")
    return RetryAfter(
        SECRET_WAIT_S,
        "the secret is not here: call again with the same key and value; an earlier attempt may "
        "have run",
    )


def _plain(value: object) -> Json:
    """Return an output as plain JSON; as it is where it has none, which the record then says."""
    try:
        return to_jsonable_python(value)
    except ValueError as error:
        if isgenerator(value):  # its body is the work
            raise
        if isinstance(error, UnicodeError):
            return BytesNotUtf8()
        if isinstance(error, PydanticSerializationError) or f"{error}".startswith(_TOO_DEEP):
            return value
        raise
