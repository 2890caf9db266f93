"""The memory domain: named facts, shared by a project or private to an agent, each with its seq."""

from placet.domains.memory.domain import FACTS_MAX, VALUE_BYTES_MAX, Memory
from placet.domains.memory.payloads import FACTS, KEYS

__all__ = ["FACTS", "FACTS_MAX", "KEYS", "VALUE_BYTES_MAX", "Memory"]
