"""A registry as plain JSON: kinds, schemas and domains for people, tools and other languages."""

from collections.abc import Sequence

from placet.kernel.plugin.domain import Domain
from placet.kernel.plugin.registry import Registry
from placet.schemas.codec import Json


def registry_json(domains: Sequence[Domain]) -> list[dict[str, Json]]:
    """Return a description of each domain as plain JSON: its kinds and their payload schemas."""
    return [_described(domain) for domain in domains]


def _described(domain: Domain) -> dict[str, Json]:
    registry = Registry([domain])
    schemas = registry.json_schemas()
    return {
        "name": domain.name,
        "version": domain.version,
        "fingerprint": registry.fingerprint,
        "kinds": {
            kind.name: {
                "summary": kind.summary,
                "version": kind.version,
                "has_footprint": kind.reads is not None or kind.reads_self is not None,
                "when_stale": kind.when_stale,
                "effects": list(kind.effects),
                "discloses": kind.discloses,
                "payload": schemas[kind.name],
            }
            for kind in registry
        },
    }
