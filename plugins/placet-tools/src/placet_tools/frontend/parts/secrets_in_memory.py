"""The secrets of calls that have not ended, in memory alone."""

from collections import OrderedDict
from threading import Lock
from typing import Final

CALLS_MAX: Final = 10_000
"""Calls whose secrets are held; of more, those of the oldest call are forgotten."""

_KEPT: Final = ""


class SecretMissing(LookupError):  # noqa: N818  # the name states the fault
    """The error of a secret that this process does not have."""


class SecretsInMemory:
    """Secrets by the call that has them. Safe for threads.

    A submission that is refused takes back its own secrets, and none that another submission of
    the same key has brought.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._calls: OrderedDict[str, dict[tuple[str, str], str]] = OrderedDict()

    def __repr__(self) -> str:
        return f"<secrets of {len(self._calls)} calls>"

    def add(self, call: str, batch: str, form: str, value: str) -> None:
        """Hold a secret of a call, which a submission brings."""
        with self._lock:
            self._calls.setdefault(call, {})[batch, form] = value
            if len(self._calls) > CALLS_MAX:
                self._calls.popitem(last=False)

    def get(self, call: str, form: str) -> str:
        """Return a secret of a call.

        Raises:
            SecretMissing: It is not here.
        """
        with self._lock:
            for (_, of_form), value in self._calls.get(call, {}).items():
                if of_form == form:
                    return value
        raise SecretMissing("the secret is not here")

    def resolve(self, call: str, batch: str, holder: str | None) -> None:
        """Hold the secrets of a submission for a call, the same or an equal one; None: for none."""
        with self._lock:
            held = self._calls.pop(call, {})
            brought = {form: value for (of, form), value in held.items() if of == batch}
            rest = {place: value for place, value in held.items() if place[0] != batch}
            if rest:
                self._calls[call] = rest
            if holder is not None and brought:
                kept = self._calls.setdefault(holder, {})
                kept.update({(_KEPT, form): value for form, value in brought.items()})

    def drop(self, call: str) -> None:
        """Forget the secrets of a call."""
        with self._lock:
            self._calls.pop(call, None)

    def clear(self) -> None:
        """Forget all secrets."""
        with self._lock:
            self._calls.clear()
