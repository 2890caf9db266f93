"""The OpenAPI document: it matches its schema, the domain, and every response.

schemathesis makes requests out of the document, sound and unsound, and checks each answer against
it. It is in the development group, not in a suite of its own: it is the one test that reads the
document as a client's generator of code would.
"""

import copy

import pytest
from jsonschema import Draft202012Validator

from placet.domains.world import World
from placet.server import create_app
from placet.server.routes.state import EventsQuery
from tests.installed import NAMES, served
from tests.server.served import serving


def references(value):
    if isinstance(value, dict):
        if isinstance(value.get("$ref"), str):
            yield value["$ref"]
        for inner in value.values():
            yield from references(inner)
    if isinstance(value, list):
        for inner in value:
            yield from references(inner)


@pytest.mark.parametrize("domain", [World(), *map(served, NAMES)], ids=["world alone", *NAMES])
def test_every_reference_of_the_document_resolves(domain):
    document = create_app(domain).state.openapi()
    known = {f"#/components/schemas/{name}" for name in document["components"]["schemas"]}
    assert set(references(document)) <= known


@pytest.mark.parametrize(
    "domains",
    [[World()], *map(served, NAMES)],
    ids=["world alone", *NAMES],
)
def test_every_route_with_a_body_declares_its_errors(domains):
    paths = create_app(domains).state.openapi()["paths"]
    for operation in (one for item in paths.values() for one in item.values()):
        if "requestBody" in operation:
            told = set(operation["responses"])
            assert {"401", "408", "413", "415", "422"} <= told, operation["summary"]


async def test_the_document_is_valid_and_names_the_kinds_of_the_domain():
    async with serving(World()) as served:
        document = (await served.get("/openapi.json", token=None)).json()
    kinds = document["components"]["schemas"]["Intent"]["discriminator"]["mapping"]
    assert set(kinds) == {"Move", "Speak", "Interact", "Custom"}
    submit = document["paths"]["/api/v1/worlds/{world}/batches"]["post"]
    assert submit["requestBody"]["content"]["application/json"]["examples"]
    assert {"200", "202", "401", "403", "404", "409", "413", "415", "422", "429", "503"} <= set(
        submit["responses"]
    )
    assert submit["security"]


async def test_the_examples_of_the_document_pass():
    async with serving(World(), agents=()) as served:
        document = (await served.get("/openapi.json")).json()

        def examples(path):
            body = document["paths"][f"/api/v1/worlds/{{world}}/{path}"]["post"]["requestBody"]
            named = body["content"]["application/json"]["examples"]
            return [copy.deepcopy(one["value"]) for one in named.values()]

        for example in examples("agents"):
            assert (await served.post("agents", example)).status_code == 201
        for example in examples("batches"):
            assert (await served.post("batches", example)).status_code == 200


@pytest.mark.parametrize(
    "domains",
    [[World()], *map(served, NAMES)],
    ids=["world alone", *NAMES],
)
def test_the_document_is_valid_openapi(domains):
    document = create_app(domains).state.openapi()
    assert document["openapi"] == "3.1.0"
    for schema in document["components"]["schemas"].values():
        Draft202012Validator.check_schema(schema)
    operations = [one for item in document["paths"].values() for one in item.values()]
    names = [operation["operationId"] for operation in operations]
    assert len(set(names)) == len(names)
    for operation in operations:
        assert operation["operationId"].isidentifier()
        assert operation["summary"]
        assert operation["description"]
        assert operation["responses"].keys() >= {"422"}
        for parameter in operation.get("parameters", ()):
            Draft202012Validator.check_schema(parameter["schema"])


def test_a_query_is_described_by_the_struct_that_reads_it():
    paths = create_app(World()).state.openapi()["paths"]
    events = paths["/api/v1/worlds/{world}/events"]["get"]
    parameters = {one["name"]: one for one in events["parameters"]}
    assert set(parameters) == {"world", *EventsQuery.__struct_fields__}
    assert parameters["from_record"]["schema"]["type"] == "integer"
    assert parameters["limit"]["schema"]["maximum"] == 1_000_000
    assert not parameters["limit"]["required"]
    assert parameters["world"]["required"]
