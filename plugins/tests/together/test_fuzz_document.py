"""Schemathesis finds no answer that the document does not say."""

import copy

import pytest
from tests.together.document_exceptions import WORLD
from tests.together.fuzz_document import ARGUMENTS, fuzz

from tests.server.process import running

SLOW, SOAK = pytest.mark.slow, pytest.mark.soak


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("domain", "uncovered"),
    [
        # A dry run has the bodies of `batches`; those of each kind of a design are too many.
        pytest.param("world", ["dry-run"], marks=SLOW),
        pytest.param("program", ["dry-run"], marks=SOAK),
        pytest.param("design", ["dry-run", "batches"], marks=SOAK),
    ],
)
def test_schemathesis_finds_no_failure(tmp_path, domain, uncovered):
    with running(tmp_path, *ARGUMENTS[domain]) as server:
        found = fuzz(server, 12, 1, [f"{WORLD}/{path}" for path in uncovered])
    assert not found.failures, "\n".join(found.failures)
    assert {"examples", "coverage", "fuzzing", "stateful"} <= set(found.cases)
    assert found.cases["coverage"] > 1_000
    assert found.cases["fuzzing"] > 200
    assert {200, 201, 204, 401, 404, 405, 409, 415, 422} <= set(found.statuses)


@pytest.mark.slow
def test_schemathesis_finds_each_fault_of_a_false_document(tmp_path):
    path = f"{WORLD}/agents"
    with running(tmp_path, *ARGUMENTS["world"]) as server:
        document = server.client.get("/openapi.json").json()
        document["paths"] = {path: document["paths"][path]}
        assert not fuzz(server, 10, 1, document=document).failures

        def failures_with(change):
            changed = copy.deepcopy(document)
            change(changed["paths"][path]["post"], changed["components"]["schemas"])
            return "\n".join(fuzz(server, 10, 1, document=changed).failures)

        assert "negative_data_rejection" in failures_with(
            lambda _, schemas: schemas["Registration"]["properties"]["priority_max"].update(
                maximum=9
            )
        )
        assert "Schema-valid request rejected" in failures_with(
            lambda _, schemas: schemas["Registration"].update(additionalProperties=True)
        )
        assert "status_code_conformance" in failures_with(
            lambda operation, _: operation["responses"].pop("401")
        )
        assert "response_schema_conformance" in failures_with(
            lambda _, schemas: schemas["Agent"]["properties"]["seq"].update(type="string")
        )
