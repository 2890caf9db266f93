"""`placet kinds`: the kinds of intents, their payloads, and the limits."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict

from placet.cli.domains import DomainOption, open_plain
from placet.cli.terminal import Line, Output, TextTable, number, with_json
from placet.plugins.domains import domain_names
from placet.runtime.registry_json import registry_json
from placet.schemas.codec import Json
from placet.schemas.limits import Limits


@with_json
def kinds(domain: DomainOption = None) -> Output:
    """Print the kinds, their JSON Schemas and limits.

    Without --domain, those of every installed domain.
    """
    names = [domain] if domain is not None else domain_names()
    report: dict[str, Json] = {
        "domains": registry_json([open_plain(name) for name in names]),
        "limits": asdict(Limits()),
    }
    return Output(report, _lines(report))


def _lines(report: Mapping[str, Json]) -> Iterator[Line]:
    for domain in report["domains"]:
        yield f"domain {domain['name']} {domain['version']}"
        yield ""
        for name, kind in domain["kinds"].items():
            yield f"  {name}" + (f" - {kind['summary']}" if kind["summary"] else "")
            yield TextTable(_fields(kind["payload"]), indent="      ")
            if kind["discloses"]:
                yield f"      discloses: {kind['discloses']}"
            yield ""
    yield "limits of a world, with their default values"
    limits = report["limits"].items()
    yield TextTable([(k, number(value) if value else "256, or 2 an agent") for k, value in limits])


def _fields(schema: Mapping[str, Json]) -> list[tuple[str, str]]:
    """List the fields of a payload: name and type, and whether it must be there."""
    required = schema.get("required", ())
    rows = [
        (name, _type(field, schema) + ("" if name in required else ", optional"))
        for name, field in schema.get("properties", {}).items()
    ]
    if schema.get("additionalProperties", False) not in (False, None):
        rows.append(("...", "anything more"))
    return rows


def _type(field: Json, schema: Mapping[str, Json]) -> str:
    """Describe a JSON Schema in a few words; `--json` prints all of it."""
    if not isinstance(field, Mapping):
        return "anything"
    if "$ref" in field:
        return _type(schema.get("$defs", {}).get(field["$ref"].rpartition("/")[2]), schema)
    if "const" in field:
        return repr(field["const"])
    if "enum" in field:
        return " | ".join(repr(value) for value in field["enum"])
    for union in ("anyOf", "oneOf"):
        if union in field:
            return " | ".join(dict.fromkeys(_type(part, schema) for part in field[union]))
    if field.get("type") == "array":
        return "array of " + _type(field.get("items"), schema)
    return str(field.get("type", "anything"))
