"""The values of marked arguments and large outputs, on their way past the log.

    gate > seal > batch of forms > log > executor > arguments > function > output > log

A secret stays in the memory of the process that received the call. A personal argument, and the
output and the failure of its call, are parts of the part store. So is an output that is too large
for a record.
"""

import json
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Final
from urllib.parse import quote, quote_plus

from anyio import to_thread

from placet.schemas.approval import Approval, HeldIntent
from placet.schemas.codec import ENCODE_ERRORS, Json, canonical, from_canonical, to_json
from placet.schemas.effect import EffectStatus
from placet.schemas.errors import StoreError
from placet_tools.domain import ToolsDomain, undone_key
from placet_tools.frontend.calls import ToolCall, unfit
from placet_tools.frontend.parts.part_store import (
    OUTPUT,
    PartMissing,
    PartStore,
    Use,
    has_cipher,
)
from placet_tools.frontend.parts.secrets_in_memory import SecretMissing, SecretsInMemory
from placet_tools.outcome import Outcome
from placet_tools.parts.marks import (
    OUTPUT_FORM,
    Personal,
    output_form,
    part_of,
    personal_form,
    secret_form,
    subject_of,
    with_values,
    without_words,
)
from placet_tools.records import OUTPUT_BYTES_MAX
from placet_tools.tool import OUTPUT_PARAMETER, DeclaredTool

PART_BYTES_MAX: Final = 2 * 1024 * 1024
"""Bytes of one part, encoded."""

_ENDED: Final = frozenset(
    {"done", "failed", "refused", "skipped", "denied", "expired", "undone", "amended"}
)
_OUTPUT: Final = re.compile(OUTPUT_FORM)
_SHOWN: Final = "secret"
_REMOVED: Final = "[secret]"


class SealedValues:
    """The values of one gate that its log does not hold.

    Args:
        domain: The domain of the tools.
        store: The part store; None for a log that has none beside it.

    Attributes:
        store: The part store.
    """

    def __init__(self, domain: ToolsDomain, store: PartStore | None) -> None:
        self._domain = domain
        self.store = store
        self._has_parts = store is not None and has_cipher()
        self._secrets = SecretsInMemory()

    def close(self) -> None:
        """Forget the secrets, and close the part store."""
        self._secrets.clear()
        if self.store is not None:
            self.store.close()

    # calls

    async def seal(self, calls: Sequence[ToolCall], batch: str) -> list[ToolCall]:
        """Return calls with forms in the place of marked arguments, whose values are kept.

        Args:
            calls: The calls, with their values.
            batch: Random id of the submission, for `settle`.

        Raises:
            StoreError: The part store cannot be written.
        """
        return [
            await to_thread.run_sync(self._sealed, tool, call, batch)
            if (tool := self._domain.tool_of(call.kind)) and tool.marks and call.is_checked
            else call
            for call in calls
        ]

    def _sealed(self, tool: DeclaredTool, call: ToolCall, batch: str) -> ToolCall:
        payload = dict(call.payload)
        of_subjects: dict[str, dict[str, bytes]] = {}
        for name, mark in tool.marks.items():
            if (content := _encoded(call.payload[name])) is None:
                too_large = {"type": "too_large", "loc": (name,), "msg": ""}
                return unfit(call.kind, call.key, tool, call.payload, [too_large])
            if isinstance(mark, Personal):
                of_subjects.setdefault(subject_of(mark, call.payload), {})[name] = content
            else:
                digest = self._parts.secret_digest(f"{call.kind}/{name}/".encode() + content)
                payload[name] = secret_form(digest)
                self._secrets.add(call.key, batch, payload[name], call.payload[name])
        for name_of_subject, contents in of_subjects.items():
            subject, digests = self._parts.put_of(
                name_of_subject, list(contents.values()), call.key, batch
            )
            for name, digest in zip(contents, digests, strict=True):
                payload[name] = personal_form(subject, digest)
        return replace(call, payload=payload)

    async def settle(
        self, calls: Sequence[ToolCall], outcomes: Sequence[Outcome], batch: str
    ) -> None:
        """Keep the values of the calls that are in the log; drop those of the others.

        Args:
            calls: The calls of a submission, sealed.
            outcomes: Their outcomes; an equal plan that was open has other keys. A plan that was
                not submitted has none.
            batch: Random id of the submission.
        """
        uses: dict[bool, list[Use]] = {True: [], False: []}
        for number, call in enumerate(calls):
            tool = self._domain.tool_of(call.kind)
            if tool is None or not tool.marks or not call.is_checked:
                continue
            outcome = outcomes[number] if outcomes else None
            holder = None
            if outcome is not None and outcome.status not in {"refused", "skipped"}:
                holder = outcome.key
            self._secrets.resolve(call.key, batch, holder)
            uses[holder == call.key] += [
                Use(part_of(call.payload[name])[1], call.key, batch)
                for name, mark in tool.marks.items()
                if isinstance(mark, Personal)
            ]
        self.forget(outcomes)
        if uses[True] or uses[False]:
            with suppress(StoreError):  # the calls have ended; the next opening resolves the uses
                await to_thread.run_sync(self._parts.resolve, uses[True], uses[False])

    def forget(self, outcomes: Sequence[Outcome]) -> None:
        """Drop the secrets of a plan that has ended; until then, a call may have to be undone."""
        if all(outcome.status in _ENDED for outcome in outcomes):
            for outcome in outcomes:
                if outcome.status not in {"refused", "skipped"}:
                    self._secrets.drop(outcome.key)

    async def why_missing(self, calls: Sequence[HeldIntent]) -> str:
        """Return why calls cannot run, because a value is not here; empty if they can.

        Raises:
            StoreError: The part store cannot be read.
        """
        for call in calls:
            key, tool = call["key"], self._domain.tool_of(call["kind"])
            if tool is None or not tool.marks:
                continue
            try:
                payload = {"key": key, "args": call["payload"]}
                await to_thread.run_sync(self.arguments, tool, payload)
            except SecretMissing:
                return f"a secret of call {key!r} is not here; call again with key and value"
            except PartMissing as error:
                return f"personal data of call {key!r} are {error}; deny the request"
        return ""

    def may_be_erased(self, calls: Sequence[ToolCall]) -> str:
        """Return a clause for calls that differ from the recorded ones: erasure changes forms."""
        tools = [self._domain.tool_of(call.kind) for call in calls]
        marks = [mark for tool in tools if tool for mark in tool.marks.values()]
        is_personal = any(isinstance(mark, Personal) for mark in marks)
        return ", or personal data of its call were erased" if is_personal else ""

    # people and agents

    async def shown(self, approval: Approval) -> Approval:
        """Return a request as a person is shown it: with personal values, and without secrets."""
        tools = [self._domain.tool_of(kind) for kind, _ in approval.calls]
        if any(tool is not None and tool.marks for tool in tools):
            return await to_thread.run_sync(self._shown, approval)
        return approval

    def _shown(self, approval: Approval) -> Approval:
        values: dict[str, Json] = {}
        intents = []
        for held in approval.intents:
            tool, payload = self._domain.tool_of(held["kind"]), held["payload"]
            marked = self._marked(tool, payload, held["key"]) if tool else {}
            values |= {payload[name]: shown for name, shown in marked.items()}
            intents.append(HeldIntent(**{**held, "payload": {**payload, **marked}}))
        changes = [tuple(with_values(one, values) for one in row) for row in approval.changes]
        return replace(approval, intents=tuple(intents), changes=tuple(changes))

    async def shown_arguments(self, tool: DeclaredTool, call: Mapping[str, Json]) -> Json:
        """Return the arguments of a call as a person is shown them.

        Args:
            tool: Its tool.
            call: Payload of its effect: `key` and `args`.
        """
        arguments, key = call["args"], undone_key(call["key"])
        if not tool.marks:
            return arguments
        return {**arguments, **await to_thread.run_sync(self._marked, tool, arguments, key)}

    def _marked(self, tool: DeclaredTool, args: Mapping[str, Json], key: str) -> dict[str, Json]:
        """Return the personal values of a call, and a word for each secret, by argument."""
        return {
            name: self._value_or_why(args[name], key) if isinstance(mark, Personal) else _SHOWN
            for name, mark in tool.marks.items()
        }

    async def opened(self, outcome: Outcome) -> Outcome:
        """Return an outcome with the parts that its output and its message name.

        Raises:
            StoreError: The part store cannot be read.
        """
        output = outcome.output
        is_part = isinstance(output, str) and _OUTPUT.fullmatch(output)
        if not is_part and not _OUTPUT.search(outcome.message):
            return outcome
        return await to_thread.run_sync(self._opened, outcome)

    def _opened(self, outcome: Outcome) -> Outcome:
        key, output = outcome.key, outcome.output
        message = _OUTPUT.sub(lambda one: str(self._value_or_why(one[0], key)), outcome.message)
        if isinstance(output, str) and _OUTPUT.fullmatch(output):
            try:
                output = self._part(output, key)
            except PartMissing as error:
                output, message = None, f"its output is {error}"
        return replace(outcome, output=output, message=message)

    def _value_or_why(self, form: str, key: str) -> Json:
        try:
            return self._part(form, key)
        except PartMissing as error:
            return str(error)

    # executors, in threads

    def arguments(self, tool: DeclaredTool, call: Mapping[str, Json]) -> dict[str, Json]:
        """Return the arguments of a call with their values.

        Args:
            tool: Its tool.
            call: Payload of its effect: `key` and `args`.

        Raises:
            SecretMissing: A secret is not in this process.
            PartMissing: A personal argument is erased, or not here.
            StoreError: The part store cannot be read.
        """
        key, arguments = call["key"], dict(call["args"])
        for name, mark in tool.marks.items():
            if isinstance(mark, Personal):
                arguments[name] = self._part(arguments[name], key)
            else:
                arguments[name] = self._secrets.get(undone_key(key), arguments[name])
        output = arguments.get(OUTPUT_PARAMETER)
        if isinstance(output, str) and undone_key(key) != key and _OUTPUT.fullmatch(output):
            arguments[OUTPUT_PARAMETER] = self._part(output, key)
        return arguments

    def is_plain(self, tool: DeclaredTool, output: Json) -> bool:
        """Return whether the log may hold an output as it is."""
        return not tool.marks and not self._is_part(output, "")

    def output(
        self, tool: DeclaredTool, call: Mapping[str, Json], output: Json, secrets: Sequence[str]
    ) -> Json:
        """Return an output as the log holds it. It never raises, because the work is done.

        Args:
            tool: The tool.
            call: Payload of the effect of the call: `key` and `args`.
            output: The output, or the text of a failure.
            secrets: Secrets of the call, which are removed.
        """
        if _encoded(output) is not None:
            output = without_secrets(output, secrets)
        subjects, content = _subjects(tool, call), _encoded(output)
        if content is None:  # its text could have a value
            why = f"with marked arguments, an output is JSON of at most {PART_BYTES_MAX} bytes"
            return {"not_recorded": why} if tool.marks else output
        if not self._is_part(output, subjects):
            return output
        try:
            of = subjects or self._parts.of_all()
            (digest,) = self._parts.put(of, [content], call["key"], OUTPUT)
        except (PartMissing, StoreError) as error:
            return {"not_recorded": str(error)} if subjects else output
        return output_form(of, digest)

    async def settled_output(self, effect: EffectStatus, output: Json) -> Json:
        """Return the output with which a person settles a call, as the log holds it.

        Args:
            effect: The effect of the call.
            output: The output, or the reason of the failure.
        """
        tool = self._domain.tool_of(effect.kind)
        assert tool is not None, "the effect is of a call of a tool"
        if self.is_plain(tool, output):
            return output
        secrets = self.secrets_of(tool, effect.payload)
        return await to_thread.run_sync(self.output, tool, effect.payload, output, secrets)

    def secrets_of(self, tool: DeclaredTool, call: Mapping[str, Json]) -> list[str]:
        """Return the secrets of a call that are here."""
        found = []
        for name, mark in tool.marks.items():
            if not isinstance(mark, Personal):
                with suppress(SecretMissing):
                    found.append(self._secrets.get(undone_key(call["key"]), call["args"][name]))
        return found

    def _is_part(self, output: Json, subjects: str) -> bool:
        """Return whether an output is kept as a part: it is personal, large, or like a form."""
        if subjects:
            return True
        if not self._has_parts:
            return False
        if isinstance(output, str) and _OUTPUT.fullmatch(output):
            return True
        content = _encoded(output)
        return content is not None and len(content) > OUTPUT_BYTES_MAX

    @property
    def _parts(self) -> PartStore:
        assert self.store is not None, "a gate with marks has a part store"
        return self.store

    def _part(self, form: str, key: str) -> Json:
        """Return a part that a call, or the call that it undoes, uses."""
        if self.store is None:
            raise PartMissing("not here")
        subjects, digest = part_of(form)
        calls = list(dict.fromkeys([key, undone_key(key)]))
        return from_canonical(self.store.get(subjects, digest, calls))


def _spellings(word: str) -> set[str]:
    """Return a word as it is, and as a `repr`, JSON, and the address of a request have it."""
    escaped = repr(f"{word}'\"")[1:-4]  # with both quotes, so that the single ones are escaped
    texts = {word, escaped, escaped.replace("\\'", "'"), quote(word), quote_plus(word)}
    return texts | {quote(word, safe=""), json.dumps(word)[1:-1], to_json(word).decode()[1:-1]}


def without_secrets(output: Json, secrets: Sequence[str]) -> Json:
    """Return an output in which secrets are replaced, in each of their spellings."""
    words = {spelling for secret in secrets if secret for spelling in _spellings(secret)}
    return without_words(output, words, _REMOVED)


def _encoded(value: Json) -> bytes | None:
    """Return the bytes of a part; None if the value has none, or too many."""
    try:
        content = canonical(value)
    except ENCODE_ERRORS:
        return None
    return content if len(content) <= PART_BYTES_MAX else None


def _subjects(tool: DeclaredTool, call: Mapping[str, Json]) -> str:
    """Return the ids of the subjects of a call, joined by `+`; empty if it has none."""
    forms = [call["args"][name] for name, mark in tool.marks.items() if isinstance(mark, Personal)]
    return "+".join(sorted({part_of(form)[0] for form in forms}))
