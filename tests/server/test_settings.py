"""Configuration: later sources win, unknown keys are refused, and all of it can be printed."""

import inspect
import json
import re
import tomllib
from dataclasses import replace
from pathlib import Path

import anyio
import pytest

from placet import Leases, Orchestrator, OrchestratorConfig
from placet.agents import AgentLimits, Llm
from placet.domains.world import World
from placet.server.config import ServeConfig
from placet.server.model_config import ModelConfig
from placet.server.settings import (
    KEYS,
    VARIABLE_OF,
    Given,
    SettingsError,
    load_settings,
    parse_assignment,
)
from tests.cli.command_line import run_process


def write(folder: Path, text: str) -> Path:
    path = folder / "c.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_defaults_apply_when_nothing_is_set(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    settings = load_settings(environ={})
    assert (settings.domain, settings.world.store) == ("world", "memory://")
    assert settings.serve == ServeConfig()
    assert settings.sources == {}


def test_the_later_source_wins(tmp_path):
    path = write(tmp_path, 'store = "a.db"\nseed = 1\n[serve]\nport = 1\nhost = "localhost"\n')
    environ = {"PLACET_SEED": "2", "PLACET_SERVE_PORT": "2", "OTHER": "x"}
    arguments = {"serve.port": Given(3, "--port")}
    settings = load_settings(path, environ=environ, arguments=arguments)
    assert settings.world.store == "a.db"
    assert settings.world.seed == 2
    assert (settings.serve.host, settings.serve.port) == ("localhost", 3)
    assert settings.sources == {
        "store": str(path),
        "seed": "PLACET_SEED",
        "serve.host": str(path),
        "serve.port": "--port",
    }


def test_every_kind_of_value_is_read_from_a_file_and_from_the_environment(tmp_path):
    path = write(
        tmp_path,
        """
        domain = "world"
        staleness_threshold = 5
        default_permissions = ["Move"]
        quotas = { Move = { rate = 2, burst = 4 } }
        [leases]
        share = 0.25
        seconds_max = 5
        [limits]
        batch_intents_max = 9
        [serve]
        drain_seconds = 2
        cors_origins = ["https://a.example"]
        [serve.limits]
        streams_max = 3
        [settings]
        max_step = 5.0
        """,
    )
    environ = {
        "PLACET_DOMAIN": "world",
        "PLACET_STALENESS_THRESHOLD": "5",
        "PLACET_DEFAULT_PERMISSIONS": '["Move"]',
        "PLACET_QUOTAS": "{ Move = { rate = 2, burst = 4 } }",
        "PLACET_LEASES": "{ share = 0.25, seconds_max = 5 }",
        "PLACET_LIMITS_BATCH_INTENTS_MAX": "9",
        "PLACET_SERVE_DRAIN_SECONDS": "2",
        "PLACET_SERVE_CORS_ORIGINS": '["https://a.example"]',
        "PLACET_SERVE_LIMITS_STREAMS_MAX": "3",
        "PLACET_SETTINGS": "{ max_step = 5.0 }",
    }
    from_file, from_environment = load_settings(path, environ={}), load_settings(environ=environ)
    assert from_file.world == from_environment.world
    assert from_file.serve == from_environment.serve
    assert from_file.world.default_permissions == frozenset({"Move"})
    assert from_file.world.leases == Leases(share=0.25, seconds_max=5)
    assert from_file.world.limits.batch_intents_max == 9
    assert from_file.serve.limits.streams_max == 3
    (domain,) = from_file.make_domains()
    assert isinstance(domain, World)
    assert domain.version != World().version


def test_the_file_of_the_current_folder_is_found(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("placet.toml").write_text("seed = 9", encoding="utf-8")
    settings = load_settings(environ={})
    assert (settings.world.seed, settings.sources) == (9, {"seed": "placet.toml"})


def test_none_is_accepted_for_optional_settings(tmp_path):
    settings = load_settings(write(tmp_path, 'snapshot_every_seqs = "none"'), environ={})
    assert settings.world.snapshot_every_seqs is None


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("sede = 1", "no key 'sede'; did you mean 'seed'"),
        ("[limits]\nagents = 1", "no key 'limits.agents'"),
        ("[serve]\nprot = 1", "no key 'serve.prot'; did you mean 'serve.port'"),
        ('seed = "x"', "seed: .*got 'x'"),
        ("seed = true", "seed: .*got True"),
        ("seed = -1", "seed must be"),
        ("limits = 3", "no key 'limits'"),
        ('clock = "slow"', "clock: "),
        ("domain = 3", "domain must be a string"),
        ("settings = 3", "settings must be a table"),
        ("store = ", "is not TOML"),
        ("[limits]\nagents_max = 0", "agents_max"),
        ("[serve]\nport = 70000", "port must be"),
        ("[serve]\ndrain_seconds = -1", "drain_seconds must be"),
        ('[serve]\ncors_origins = ["a.example"]', "an origin is"),
        ("quotas = { Move = { rate = 2 } }", "burst"),
        ("default_permissions = [['Move']]", r"default_permissions: .*got \[\['Move'\]\]"),
        ("default_permissions = [{ kind = 'Move' }]", "default_permissions: .*got"),
        ("default_permissions = ['Move', 3]", "default_permissions: .*got"),
        ("[leases]\nshare = 2", "leases: share of leases must be a number from 0.01 to 1, got 2"),
        ("leases = 3", "leases: .*got 3"),
        ("model = 'openai:x'", "no key 'model'; did you mean 'model.name'"),
        ("[model]\napi_key = 'sk-1'", "no key 'model.api_key'; did you mean 'model.api_key_env'"),
        ("[model]\napi_key_env = 'sk-1'", "must be the name of an environment variable"),
        ("[model]\napi_key_env = 'AIzaSy1'", "must be the name of an environment variable"),
        ("[model]\nbase_url = 'me:word@host'", "base_url must be the address of an API"),
        ("[model]\nbase_url = 'http://me:word@host/v1'", "base_url must be the address"),
        ("[model]\nbase_url = 'http://host:x/v1'", "base_url must be the address"),
        ("[model]\nprice = 1", "model.price: .*got 1"),
        ("[model]\nprice = [1]", r"price must be \[IN, OUT\]"),
        ("[model]\nprice = []", r"price must be \[IN, OUT\]"),
        ("[model]\nprice = [1, inf]", r"price must be \[IN, OUT\]"),
        ("[model]\nmax_usd = -0.1", "max_usd must be US dollars of at least 0, got -0.1"),
        ("[model]\nmax_usd = nan", "max_usd must be US dollars"),
        ("[model]\nmax_tokens = 0", "max_tokens must be at least 1"),
        ("[model]\nmax_output_tokens = 0", "max_output_tokens must be at least 1, got 0"),
        ("[model]\nmax_seconds = 0", "max_seconds must be seconds above 0 and at most 86400"),
        ("[model]\nmax_request_seconds = nan", "max_request_seconds must be seconds above 0"),
    ],
)
def test_an_invalid_value_is_reported_with_its_source(tmp_path, text, said):
    path = write(tmp_path, text)
    with pytest.raises(SettingsError, match=said) as told:
        load_settings(path, environ={})
    assert str(path) in str(told.value)
    assert not {"sk-1", "AIzaSy1", "word"} & set(re.findall(r"[\w-]+", str(told.value)))


def test_address_key_and_price_are_those_of_one_model(tmp_path):
    path = write(
        tmp_path,
        """
        [model]
        name = "openai-chat:qwen3:4b"
        base_url = "http://127.0.0.1:11434/v1"
        api_key_env = "QWEN_KEY"
        price = [0, 2.5]
        max_usd = "none"
        max_tokens = 900
        max_seconds = 900
        max_output_tokens = 512
        budget = "team"
        """,
    )
    model = load_settings(path, environ={}).serve.model
    assert model == ModelConfig(
        name="openai-chat:qwen3:4b",
        base_url="http://127.0.0.1:11434/v1",
        api_key_env="QWEN_KEY",
        price=[0, 2.5],
        max_usd=None,
        max_tokens=900,
        max_seconds=900,
        max_output_tokens=512,
        budget="team",
    )
    assert model.request_seconds == 450, "there is time for a second request"
    same = {"PLACET_MODEL_NAME": "openai-chat:qwen3:4b", "PLACET_MODEL_MAX_USD": "0.5"}
    assert load_settings(path, environ=same).serve.model == replace(model, max_usd=0.5)
    other = {"PLACET_MODEL_NAME": "openai:gpt-5-mini", "PLACET_MODEL_PRICE": "[1, 2]"}
    assert load_settings(path, environ=other).serve.model == replace(
        model, name="openai:gpt-5-mini", base_url=None, api_key_env=None, price=[1, 2]
    )
    assert model.of_model("openai:gpt-5-mini") == replace(
        model, name="openai:gpt-5-mini", base_url=None, api_key_env=None, price=None
    )
    assert model.of_model(model.name) == model


def test_the_limits_of_a_model_are_those_of_an_agent():
    limits = AgentLimits()
    model = ModelConfig()
    assert (model.max_usd, model.max_tokens, model.max_seconds) == (
        limits.cost_usd_max,
        limits.tokens_max,
        limits.seconds_max,
    )
    stated = inspect.signature(Llm).parameters["attempt_seconds_max"].default
    assert model.request_seconds == stated


@pytest.mark.parametrize(
    ("variable", "text", "said"),
    [
        ("PLACET_STOER", "x", "did you mean 'PLACET_STORE'"),
        ("PLACET_SEED", "x", "PLACET_SEED: seed: .*got 'x'"),
        ("PLACET_SERVE_PORT", "x", "PLACET_SERVE_PORT"),
    ],
)
def test_an_invalid_variable_is_reported(variable, text, said):
    with pytest.raises(SettingsError, match=said):
        load_settings(environ={variable: text})


@pytest.mark.parametrize("text", ["x", "x=1", "serve.prot=1"])
def test_an_invalid_assignment_is_reported(text):
    with pytest.raises(SettingsError, match="--set"):
        parse_assignment(text)


def test_a_missing_file_is_reported(tmp_path):
    with pytest.raises(SettingsError, match="cannot read"):
        load_settings(tmp_path / "no.toml", environ={})


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[settings]\nmax_stpe = 1", "no setting 'max_stpe'; did you mean 'max_step'"),
        ("[settings]\nmax_step = -1", "settings of domain 'world'"),
        ('domain = "tests.kernel.domains:add"', "settings of domain"),
        ('domain = "collections:OrderedDict"', "makes no domain"),
    ],
)
def test_an_invalid_domain_is_reported(tmp_path, text, said):
    settings = load_settings(write(tmp_path, text), environ={})
    with pytest.raises(SettingsError, match=said):
        settings.make_domains()


def test_every_key_has_an_environment_variable():
    assert len(set(VARIABLE_OF.values())) == len(KEYS)
    assert VARIABLE_OF["serve.limits.streams_max"] == "PLACET_SERVE_LIMITS_STREAMS_MAX"


def test_printed_config_reads_back_to_the_same_settings(placet, tmp_path):
    given = [
        "--set", "seed=7", "--set", "store=sqlite:///a b.db", "--set", "settings={max_step=2.5}",
        "--set", "quotas={Move={rate=2,burst=4}}", "--set", 'default_permissions=["Move"]',
        "--set", "leases={share=0.25}",
    ]  # fmt: skip
    printed = placet("config", *given)
    assert printed.code == 0
    assert "seed = 7  # --set seed" in printed.out
    tomllib.loads(printed.out)
    path = tmp_path / "printed.toml"
    path.write_text(printed.out, encoding="utf-8")
    first = placet("config", *given, "--json").json()
    second = placet("config", "--config", str(path), "--json").json()
    assert first["settings"] == second["settings"]
    assert first["sources"]["seed"] == "--set seed"
    assert list(first["settings"]) == ["domain", *[k for k in first["settings"] if k != "domain"]]
    assert set(first["settings"]) == set(KEYS)


def test_a_store_keeps_its_leases_and_another_share_is_listed(tmp_path):
    store = f"sqlite:///{tmp_path}/leased.db"

    async def make() -> None:
        config = OrchestratorConfig(store=store, leases=Leases(share=0.25))
        async with Orchestrator(World(), config):
            pass

    anyio.run(make)
    given = {"store": Given(store, "--store")}
    kept = load_settings(arguments=given, environ={}, has_file=False)
    assert kept.world.leases == Leases(share=0.25)
    assert kept.sources["leases"] == store
    other = {**given, "leases": Given({"share": 0.5}, "--set leases")}
    changed = load_settings(arguments=other, environ={}, has_file=False)
    assert changed.recorded is not None
    (override,) = changed.recorded.overrides(changed.world, changed.make_domains())
    assert override.key == "leases"
    assert "0.25" in str(override)
    assert "0.5" in str(override)


def test_config_refuses_the_settings_that_serve_refuses(placet):
    assert placet("config", "--set", "seed=x").code == 1
    outcome = placet("config", "--set", "settings={max_stpe=1}")
    assert (outcome.code, "max_step" in outcome.err) == (1, True)


def test_the_environment_of_the_process_is_read(tmp_path):
    outcome = run_process("config", "--json", folder=tmp_path, PLACET_SEED="5")
    assert json.loads(outcome.out)["settings"]["seed"] == 5


@pytest.mark.parametrize(
    ("host", "is_loopback"),
    [
        ("127.0.0.1", True),
        ("127.8.8.8", True),
        ("::1", True),
        ("localhost", True),
        ("0.0.0.0", False),  # told from the others here
        ("::", False),
        ("192.168.0.1", False),
        ("example.org", False),
    ],
)
def test_only_loopback_is_loopback(host, is_loopback):
    assert ServeConfig(host=host).is_loopback == is_loopback


def test_persons_and_notices_are_read_and_printed(tmp_path):
    path = write(
        tmp_path,
        """
        [people.ann]
        roles = ["manager"]
        [people.bob]
        roles = []
        [approvals]
        webhook = "https://example.org/hook"
        webhook_secret_env = "HOOK_SECRET"
        command = ["notify", "-v"]
        """,
    )
    settings = load_settings(path, environ={})
    assert settings.serve.people == {"ann": ["manager"], "bob": []}
    assert settings.serve.approvals.command == ["notify", "-v"]
    assert dict(settings.values())["people"] == {
        "ann": {"roles": ["manager"]},
        "bob": {"roles": []},
    }
    of_variable = load_settings(
        has_file=False, environ={"PLACET_PEOPLE": '{ann = {roles = ["manager"]}}'}
    )
    assert of_variable.serve.people == {"ann": ["manager"]}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[people.ann]\nrole = ["manager"]', "people.ann must be .* got the key 'role'"),
        ("[people]\nann = 5", "people.ann must be"),
        ('[people.ann]\nroles = "manager"', "people.ann.roles must be a list of names"),
        ('[people.ann]\nroles = [""]', "people.ann.roles must be a list of names"),
        ('people = "ann"', "people must be a table"),
        ("[approvals]\nwebhok = 1", "there is no key 'approvals.webhok'; .*approvals.webhook"),
        ('[approvals]\nwebhook = "https://a.example"', "are set together"),
        (
            '[approvals]\nwebhook = "https://ann:pw@a.example"\nwebhook_secret_env = "X"',
            "without name and password",
        ),
        (
            '[approvals]\nwebhook = "https://a.example"\nwebhook_secret_env = "hush"',
            "the name of an environment variable in capitals",
        ),
        ("[approvals]\ncommand = []", "a list of the program and its arguments"),
        ('[approvals]\ncommand = "notify"', "approvals.command"),
    ],
)
def test_a_fault_of_persons_or_notices_is_named(tmp_path, text, message):
    path = write(tmp_path, text)
    with pytest.raises(SettingsError, match=message) as caught:
        load_settings(path, environ={})
    assert "pw" not in str(caught.value)
    assert "hush" not in str(caught.value)
