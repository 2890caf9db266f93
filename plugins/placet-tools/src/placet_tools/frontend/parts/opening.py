"""Finds the values of a gate: by the log beside which they are, and by the domain of its tools."""

from weakref import WeakKeyDictionary

from placet.stores.url import file_of, is_lasting, open_event_log
from placet_tools.domain import ToolsDomain
from placet_tools.frontend.parts.part_store import PartStore, require_cipher
from placet_tools.frontend.parts.sealed_values import SealedValues
from placet_tools.parts.marks import Personal
from placet_tools.tool import ToolError

_OF_DOMAINS: "WeakKeyDictionary[ToolsDomain, SealedValues]" = WeakKeyDictionary()
"""The values of gates: the executors of a domain receive the domain alone."""


def values_beside(domain: ToolsDomain, store: str) -> SealedValues:
    """Return the values of a gate, which the executors of its domain will find.

    Args:
        domain: The domain of the tools.
        store: URL of the log.

    Raises:
        ToolError: A tool has marks, and the log has no place beside it for keys and parts, or the
            extra is not installed.
        StoreError: The URL names no store.
    """
    log = open_event_log(store)
    path = file_of(log)
    has_place = path is not None or not is_lasting(log)
    marks = [mark for tool in domain.tools.values() for mark in tool.marks.values()]
    if marks and not has_place:
        raise ToolError(
            "secrets and personal data need keys beside the log, which a log in a file or in "
            f"memory has; got {store.partition(':')[0]}, so name a store such as sqlite:///shop.db"
        )
    if any(isinstance(mark, Personal) for mark in marks):
        require_cipher()
    values = SealedValues(domain, PartStore(path) if has_place else None)
    _OF_DOMAINS[domain] = values
    return values


def values_of(domain: ToolsDomain) -> SealedValues | None:
    """Return the values of the gate of a domain; None for a world that was opened without one."""
    return _OF_DOMAINS.get(domain)
