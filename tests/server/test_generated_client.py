"""A typed client that is generated from the server's document speaks with the server."""

import importlib
import os
import subprocess

import pytest

from tests.server.process import running

COMMAND = os.environ.get("TEST_OPENAPI_CLIENT", "")
"""The command `openapi-python-client`, of an environment of its own: it pins another typer."""


@pytest.mark.soak
@pytest.mark.skipif(not COMMAND, reason="TEST_OPENAPI_CLIENT names no generator")
def test_a_generated_client_registers_submits_and_reads(tmp_path, monkeypatch):
    with running(tmp_path) as server:
        (tmp_path / "openapi.json").write_bytes(server.client.get("/openapi.json").content)
        generated = subprocess.run(
            [
                *(*COMMAND.split(), "generate", "--meta", "none"),
                *("--path", "openapi.json", "--output-path", "town_client"),
            ],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=True,
        )
        assert "Warning" not in generated.stdout, generated.stdout
        monkeypatch.syspath_prepend(str(tmp_path))
        models = importlib.import_module("town_client.models")
        api = {
            name: importlib.import_module(f"town_client.api.{name}")
            for name in (
                *("agents.register_agent", "batches.submit_batch", "batches.get_verdict"),
                "reading.get_state",
            )
        }
        client_of = importlib.import_module("town_client").AuthenticatedClient
        token = server.told["operator_token"]
        with client_of(server.told["url"], token, raise_on_unexpected_status=True) as client:
            registration = models.Registration.from_dict(
                {"agent_id": "ann", "attributes": {"position": [0, 0]}}
            )
            api["agents.register_agent"].sync("world", client=client, body=registration)
            move = models.IntentMove.from_dict(
                {"kind": "Move", "payload": {"to": [3, 4]}, "agent_id": "ann", "req_id": "ann:1"}
            )
            verdict = api["batches.submit_batch"].sync("world", client=client, body=move)
            assert isinstance(verdict, models.Verdict)
            assert verdict.admitted
            again = api["batches.get_verdict"].sync(
                "world", client=client, agent_id="ann", req_id="ann:1"
            )
            assert (again.admitted, again.seq) == (True, verdict.seq)
            state = api["reading.get_state"].sync("world", client=client)
            assert state.to_dict()["value"]["world.agents"]["ann"]["position"] == [3, 4, 0]
            sent = models.IntentMove.from_dict(
                {**move.to_dict(), "req_id": "ann:2", "priority": -1}
            )
            refused = api["batches.submit_batch"].sync("world", client=client, body=sent)
            assert not refused.admitted
            assert refused.refusals[0].code == "field_invalid"
