"""How changes of the ledger are undone: a list of calls, made newest first.

Only a kernel with a mark keeps the list (`kernel/rollback.py`). A call restores the values that its
change has replaced; the scalars of the ledger are not in it: a mark holds their values.
"""

from collections.abc import Callable, MutableMapping
from typing import TypeAlias, TypeVar

Undo: TypeAlias = tuple[Callable[..., object], *tuple[object, ...]]
"""`(function, *arguments)` of the call that undoes one change; a partial costs three times that."""

Key = TypeVar("Key")
Value = TypeVar("Value")


def restore_item(mapping: MutableMapping[Key, Value], key: Key, before: Value | None) -> None:
    """Set the value of a key to the value before; None removes the key."""
    if before is None:
        mapping.pop(key, None)
    else:
        mapping[key] = before
