"""Claims: a token is limited to some worlds, with a role in each."""

import pytest

from placet.server.config import ServeConfig
from placet.server.credentials import Credentials, KnownToken, hash_of
from placet.server.roles import Claims, ClaimsError
from placet.server.settings import SettingsError, load_settings
from tests.kernel.builders import intent
from tests.server.served import serving

BATCH = [intent("Note", {"text": "x"}, "bob:1", agent_id="bob")]


def claiming(claims: Claims, **more):
    return serving(serve=ServeConfig(claims=claims), **more)


def paths(document):
    """Return the GET paths of a world that need no query."""
    return [
        path.replace("{world}", "world")
        for path, operations in document["paths"].items()
        if "get" in operations and path.startswith("/api/v1/worlds/{world}") and "{a" not in path
    ]


async def test_a_reader_reads_and_writes_nothing():
    async with claiming({"bob": {"world": "reader"}}) as served:
        for path in ("state", "events", "agents", "agents/bob"):
            assert (await served.get(path, token="bob")).status_code == 200
        for path in ("batches", "dry-run"):
            refused = await served.post(path, BATCH, token="bob")
            assert (refused.status_code, refused.json()["code"]) == (403, "forbidden")
        assert (await served.post("pause", token="bob")).status_code == 403
        assert (await served.get("state", token="alice")).status_code == 200, "no claim: an agent"


async def test_an_operator_of_a_world_is_none_of_the_server():
    async with claiming({"carol": {"world": "operator"}}) as served:
        state = await served.get("state", token="carol")
        assert state.json() == (await served.get("state")).json()
        await served.post("agents", {"agent_id": "erin"}, token="carol")
        assert (await served.get("agents/erin", token="carol")).status_code == 200
        assert (await served.get("history", token="carol")).status_code == 200
        listed = (await served.get("/api/v1/history", token="carol")).json()["worlds"]
        assert listed == [{"world": "world", "fork": False}]
        assert (await served.get("/metrics", token="carol")).status_code == 403
        assert (await served.get("/api/v1/history", token="alice")).status_code == 403


async def test_a_fork_is_played_by_operators_of_its_world():
    async with claiming({"carol": {"world": "operator"}}) as served:
        made = await served.post("history/forks", {"record": 1}, token="carol")
        assert made.status_code == 201, made.text
        fork = f"/api/v1/worlds/{made.json()['world']}/history"
        assert (await served.get(fork, token="carol")).status_code == 200
        assert (await served.get(fork, token="alice")).status_code == 403


async def test_a_world_without_a_claim_is_none_at_any_address():
    async with claiming({"bob": {"world": "agent"}}) as served:
        served.context.config = ServeConfig(claims={"bob": {}})
        document = (await served.get("/openapi.json")).json()
        assert len(paths(document)) > 5
        for path in paths(document):
            mine = await served.get(path, token="bob")
            none = await served.get(path.replace("/worlds/world", "/worlds/no"), token="bob")
            assert mine.status_code == none.status_code, path
            assert mine.json()["detail"].replace("'world'", "'no'") == none.json()["detail"]
            assert mine.status_code in {404, 422}, path
        assert (await served.get("/api/v1/worlds", token="bob")).json()["worlds"] == []


@pytest.mark.parametrize(
    ("claims", "message"),
    [
        ({"bobb": {"world": "agent"}}, "serve.claims.bobb: no token has this name; did you mean"),
        ({"operator": {"world": "reader"}}, "the operator's tokens are for every world"),
        ({"bob": {"wrold": "agent"}}, "serve.claims.bob: there is no world 'wrold' here; did"),
    ],
)
async def test_claims_of_unknown_tokens_and_worlds_end_the_start(claims, message):
    with pytest.raises(ClaimsError, match=message):
        async with claiming(claims):
            pass


def test_an_unknown_role_in_the_file_names_its_place(tmp_path):
    file = tmp_path / "placet.toml"
    file.write_text('[serve.claims]\nbob = { world = "agnt" }\n')
    with pytest.raises(SettingsError) as raised:
        load_settings(file, environ={})
    assert "serve.claims.bob.world" in str(raised.value)
    assert "'reader', 'agent' or 'operator'" in str(raised.value)


def test_claims_are_read_from_the_file_and_the_environment(tmp_path):
    file = tmp_path / "placet.toml"
    file.write_text('[serve.claims]\nbob = { world = "agent" }\n"a b" = { world = "reader" }\n')
    expected = {"bob": {"world": "agent"}, "a b": {"world": "reader"}}
    assert load_settings(file, environ={}).serve.claims == expected
    environ = {"PLACET_SERVE_CLAIMS": '{bob = {world = "reader"}}'}
    assert load_settings(file, environ=environ).serve.claims == {"bob": {"world": "reader"}}


def test_credentials_name_their_submitters():
    known = Credentials([KnownToken("bob", hash_of("a")), KnownToken("operator", hash_of("b"))])
    assert known.submitters == {"bob", "operator"}
