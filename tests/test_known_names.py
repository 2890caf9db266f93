"""No name in a setting is inert: it is known, or an error names the nearest known one.

One row for each argument, file, variable and option that takes names, with a misspelled name. The
fields of the configurations are listed below: a new field is either of names, with a row here, or
is stated to hold none.
"""

import inspect
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from placet import Log, Orchestrator, OrchestratorConfig, Simulation
from placet.domains.world import World
from placet.history.selection import Selection
from placet.history.verify_log import verify_log
from placet.kernel import Kernel, KernelConfig
from placet.kernel.plugin.domain import Domain, Kind
from placet.kernel.plugin.known_names import require_effect
from placet.kernel.plugin.registry import Registry
from placet.lab import Collector
from placet.scenarios import load
from placet.scenarios.engine import run_scenario
from placet.scenarios.scenario import Scenario, from_values
from placet.scenarios.thinking import Workers
from placet.scenarios.values import AgentCohort, Collect, ObjectSort, ScenarioError
from placet.schemas.config import Leases
from placet.schemas.errors import ValidationError
from placet.schemas.limits import Limits
from placet.schemas.name_suggestions import did_you_mean
from placet.schemas.portrayal import Portrayal
from placet.server.config import ServeConfig
from placet.server.model_config import ModelConfig
from placet.server.people import check_people
from placet.server.roles import check_claimants, check_claimed_worlds
from placet.server.settings import load_settings
from placet.stores.url import open_event_log
from placet.sweeps.sweep import run_scenarios
from placet.tables.parts import CollectError
from placet.tables.plan import TableOptions

QUOTA = {"rate": 1.0, "burst": 1}
ANY: Any = None


def still(view: Any) -> list[Any]:
    return []


def simulation(**options: Any) -> Simulation:
    return Simulation(World(), agents={"folk": (2, still)}, **options)


def in_world(
    act: Callable[[Orchestrator], Any], domain: Domain | None = None, *, stepped: bool = False
) -> None:
    config = OrchestratorConfig(clock="stepped" if stepped else "realtime")

    async def run() -> None:
        async with Orchestrator(domain or World(), config) as world:
            await world.register_agent("ann")
            await act(world)

    anyio.run(run)


async def _entered(world: Orchestrator) -> None:
    ann = await world.register_agent("ann")
    await ann.fresh_context(reads=["world.agnets/bob"]).__aenter__()


def scenario(**tables: Any) -> Scenario:
    folk = {"count": 2, "policy": "townsfolk"}
    raw = {"name": "small", "ticks": 2, "agents": {"folk": folk}, **tables}
    return from_values("small.toml", raw)


def run_of(**tables: Any) -> Any:
    return Simulation(scenario(**tables)).run()


class Wealth(Domain):
    """A domain whose agents have wealth, and whose kind emits one effect."""

    name = "wealth"
    version = "1"
    kinds = (Kind("Pay", dict, lambda draft, intent: None, effects=("bank.pay",)),)

    def on_register(self, draft: Any, agent_id: str, attributes: Mapping[str, Any]) -> None:
        draft.create("wealth.agents", agent_id, {"wealth": attributes.get("wealth", 0)})


class Misnamed(Wealth):
    name = "misnamed"

    def on_registr(self) -> None: ...


class Writing(Wealth):
    name = "writing"
    writes = ("wrold",)


class Deaf(Domain):
    name = "deaf"
    version = "1"
    kinds = (Kind("Listen", dict, lambda draft, intent: None),)


def collected(**collect: Any) -> None:
    with Collector(**collect) as collector:
        simulation(collector=collector).run(ticks=2)


def log_with(path: Path, **filters: Any) -> None:
    store = f"sqlite:///{path / 'town.db'}"
    with simulation(store=store) as run:
        run.run(ticks=1)
    with Log(store) as log:
        list(log.records(**filters))


def serve_file(path: Path, text: str) -> None:
    file = path / "placet.toml"
    file.write_text(text)
    load_settings(file, environ={})


def swept(**options: Any) -> None:
    run_scenarios(scenario().product(max_step=[1.0]), **options)


def _register(**options: Any) -> None:
    Kernel(World()).register_agent("ann", **options)


def _bear(of: type[Domain], **attributes: Any) -> None:
    """Register an agent by the hook of a tick."""

    class Bearing(of):  # type: ignore[misc, valid-type]  # a base that is given
        def on_tick(self, draft: Any, now: float) -> None:
            draft.register("kid", **attributes)

    Kernel(Bearing(), KernelConfig(on_rule_error="raise")).tick(1.0)


CASES: dict[str, tuple[Callable[[Path], Any], str]] = {
    # a world and its agents
    "quotas of a kernel": (
        lambda _: Kernel(World(), KernelConfig(quotas={"speak": QUOTA})),
        "Speak",
    ),
    "quotas of an orchestrator": (
        lambda _: anyio.run(
            Orchestrator(World(), OrchestratorConfig(quotas={"Spek": QUOTA})).__aenter__
        ),
        "Speak",
    ),
    "quotas of work": (
        lambda _: Kernel(World(), KernelConfig(quotas={"work:agents": QUOTA})),
        "work:agent",
    ),
    "default permissions": (
        lambda _: Kernel(World(), KernelConfig(default_permissions=frozenset({"move"}))),
        "Move",
    ),
    "permissions of an agent": (lambda _: _register(permissions={"Speek"}), "Speak"),
    "quotas of an agent": (lambda _: _register(quotas={"Mvoe": QUOTA}), "Move"),
    "attributes of World": (lambda _: _register(positon=[0, 0]), "position"),
    "attributes of a domain": (
        lambda _: Kernel(Wealth()).register_agent("ann", welth=1),
        "wealth",
    ),
    "attributes of a deaf domain": (
        lambda _: Kernel(Deaf()).register_agent("ann", wealth=1),
        "on_register",
    ),
    "attributes of a birth": (lambda _: _bear(Wealth, welth=1), "wealth"),
    "attributes of a birth in a deaf domain": (lambda _: _bear(Deaf, wealth=1), "on_register"),
    "changed permissions": (
        lambda _: in_world(lambda world: world.set_agent_permissions("ann", {"Intreact"})),
        "Interact",
    ),
    "executor": (
        lambda _: in_world(lambda world: world.register_executor("bank.pya", print), Wealth()),
        "bank.pay",
    ),
    "filter of effects": (
        lambda _: in_world(lambda world: world.effects(kind="bank.pya"), Wealth()),
        "bank.pay",
    ),
    "agents of a barrier": (
        lambda _: in_world(lambda world: world.barrier(["anne"]), stepped=True),
        "ann",
    ),
    "reads of a context": (lambda _: in_world(_entered), "world.agents"),
    "writes of a domain": (lambda _: Registry([World(), Writing()]), "world"),
    "hook of a domain": (lambda _: Registry([Misnamed()]), "on_register"),
    "keyword of a config": (lambda _: OrchestratorConfig(quota={}), "quotas"),  # type: ignore[call-arg]
    "keyword of leases": (lambda _: Leases(second_max=1), "seconds_max"),  # type: ignore[call-arg]
    "keyword of limits": (lambda _: Limits(agent_max=1), "agents_max"),  # type: ignore[call-arg]
    "clock": (lambda _: OrchestratorConfig(clock="steped"), "stepped"),  # type: ignore[arg-type]
    "backpressure": (lambda _: OrchestratorConfig(backpressure="dilat"), "dilate"),  # type: ignore[arg-type]
    "log format": (lambda _: OrchestratorConfig(log_format="jsn"), "json"),
    "log level": (lambda _: OrchestratorConfig(log_level="warn"), "warning"),
    "on_rule_error": (lambda _: KernelConfig(on_rule_error="rais"), "raise"),  # type: ignore[arg-type]
    "cooldowns": (lambda _: World(cooldowns={"Mov": 1}), "Move"),
    "visibility": (lambda _: World(observation={"distanc": 1}), "distance"),
    "hidden fields": (
        lambda _: Kernel(World(observation={"hidden_fields": ["inventroy"]})),
        "inventory",
    ),
    # scenarios
    "keyword of a simulation": (lambda _: simulation(quota={}), "quotas"),
    "quotas of a simulation": (lambda _: simulation(quotas={"speak": QUOTA}), "Speak"),
    "view of a simulation": (lambda _: simulation().view("folk_11"), "folk_1"),
    "permissions of a cohort": (
        lambda _: run_of(
            agents={"folk": {"count": 1, "policy": "townsfolk", "permissions": ["move"]}}
        ),
        "Move",
    ),
    "key of a cohort": (
        lambda _: scenario(agents={"folk": {"cuont": 1, "policy": "townsfolk"}}),
        "count",
    ),
    "policy of a cohort": (
        lambda _: scenario(agents={"folk": {"count": 1, "policy": "townfolk"}}),
        "townsfolk",
    ),
    "options of a policy": (
        lambda _: run_of(
            agents={"folk": {"count": 1, "policy": "townsfolk", "options": {"talkativ": 1}}}
        ),
        "talkative",
    ),
    "options of a policy without options": (
        lambda _: Simulation(
            World(), agents={"folk": {"count": 1, "policy": still, "options": {"speed": 1}}}
        ),
        "options",
    ),
    "attributes of a cohort": (
        lambda _: run_of(
            agents={"folk": {"count": 1, "policy": "townsfolk", "attributes": {"taem": "red"}}}
        ),
        "team",
    ),
    "key of a scenario": (lambda _: scenario(quota={}), "quotas"),
    "leases of a scenario": (lambda _: scenario(leases={"shar": 0.1}), "share"),
    "setting of a scenario": (lambda _: run_of(settings={"max_stp": 1.0}), "max_step"),
    "quotas of a scenario": (lambda _: run_of(quotas={"speak": QUOTA}), "Speak"),
    "bundled scenario": (lambda _: Scenario.load("twon"), "town"),
    "override": (lambda _: Scenario.load("town", overrides=["agents.townfolk.count=1"]), "folk"),
    "domain of a scenario": (lambda _: run_of(domain="wolrd"), "world"),
    "key of collect": (lambda _: scenario(collect={"evry": 1, "refusals": True}), "every"),
    "field of collect": (lambda _: collected(agents=["positon"]), "position"),
    "collection of collect": (lambda _: collected(agents=["world.agent/position"]), "world.agents"),
    "function of until": (
        lambda _: run_scenario(scenario(until="tests.scenarios.test_ending:is_tru")),
        "is_true",
    ),
    "field of a portrayal": (
        lambda _: run_scenario(
            replace(load("sir"), portrayal={"sir.people": Portrayal(color="stat")})
        ),
        "state",
    ),
    "place of workers": (lambda _: Workers(1, on="hre"), "here"),  # type: ignore[arg-type]  # misspelled
    "function of collect": (
        lambda _: Collector(world={"n": "placet.lab:Collectr"}),
        "Collector",
    ),
    # sweeps
    "axis": (lambda _: run_scenarios(scenario().product(max_stp=[1.0])), "max_step"),
    "axis of a cohort": (lambda _: scenario().product({"agents.folk.cuont": [1]}), "count"),
    "axis of a scenario": (lambda _: run_scenarios(scenario().product(tiks=[1])), "ticks"),
    "axis of another cohort": (lambda _: scenario().with_values({"agents.fok.count": 1}), "folk"),
    "axis of quotas": (
        lambda _: run_scenarios(scenario().product({"quotas.speak": [QUOTA]})),
        "Speak",
    ),
    "column of a data frame": (
        lambda _: run_scenarios(Scenario.from_dataframe([{"max_stp": 1.0}], base=scenario())),
        "max_step",
    ),
    "columns of results": (lambda _: swept(columns=["settings.max_stp"]), "settings.max_step"),
    "outcome": (lambda _: swept(outcome="tests.lab.coin:headz"), "heads"),
    "where": (lambda _: swept(on="rya"), "ray"),
    "logs": (lambda _: swept(logs="fail"), "failed"),
    # logs
    "agent of records": (lambda path: log_with(path, agent="folk_11"), "folk_1"),
    "kind of records": (lambda path: log_with(path, kind="move"), "Move"),
    "table of an export": (lambda _: TableOptions(names=("intent",)), "intents"),
    # servers
    "key of a file": (lambda path: serve_file(path, "stoer = 'memory://'"), "store"),
    "section of a file": (lambda path: serve_file(path, "[srve]\nport = 1"), "serve"),
    "key of serve": (lambda path: serve_file(path, "[serve]\nprot = 1"), "serve.port"),
    "key of model": (lambda path: serve_file(path, "[model]\nnmae = 'a:b'"), "model.name"),
    "key of limits": (
        lambda path: serve_file(path, "[limits]\nagent_max = 1"),
        "limits.agents_max",
    ),
    "key of leases": (lambda path: serve_file(path, "[leases]\nshar = 0.1"), "share"),
    "variable": (
        lambda _: load_settings(environ={"PLACET_STOER": "x"}, has_file=False),
        "PLACET_STORE",
    ),
    "role of a claim": (
        lambda path: serve_file(path, "[serve.claims.ann]\ntown = 'reder'"),
        "reader",
    ),
    "token of a person": (lambda _: check_people({"anna": []}, ["ann"], []), "ann"),
    "role of a person": (
        lambda _: check_people({"ann": ["manger"]}, ["ann"], ["manager"]),
        "manager",
    ),
    "key of approvals": (
        lambda path: serve_file(path, "[approvals]\nwebhok = 'https://example.org'"),
        "approvals.webhook",
    ),
    "token of a claim": (lambda _: check_claimants({"anna": {}}, ["ann"]), "ann"),
    "world of a claim": (
        lambda _: check_claimed_worlds({"ann": {"twon": "reader"}}, ["town"]),
        "town",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_a_misspelled_name_is_refused_with_the_nearest(case: str, tmp_path: Path) -> None:
    act, near = CASES[case]
    with pytest.raises(Exception) as raised:  # noqa: PT011  # of many classes; the text is checked
        act(tmp_path)
    assert near in str(raised.value), raised.value
    assert not isinstance(raised.value, AttributeError | KeyError | AssertionError)


# every field of the configurations

FREE = "it holds no name that is defined elsewhere"
OPENED = "the store, file or address is opened, and its failure names it"
CASES_OF: dict[str, Any] = {
    "OrchestratorConfig": {
        **dict.fromkeys(("store", "anchors"), OPENED),
        **dict.fromkeys(("world", "origin"), FREE),
        "clock": ["clock"],
        "quotas": ["quotas of an orchestrator", "quotas of work"],
        "world_quota": "a quota has two keys, and `Quota.of` refuses others",
        "default_permissions": ["default permissions"],
        "backpressure": ["backpressure"],
        "leases": ["keyword of leases", "key of leases"],
        "limits": ["keyword of limits", "key of limits"],
        "log_format": ["log format"],
        "log_level": ["log level"],
    },
    "KernelConfig": {
        "world": FREE,
        "quotas": ["quotas of a kernel"],
        "world_quota": "a quota has two keys, and `Quota.of` refuses others",
        "default_permissions": ["default permissions"],
        "leases": ["keyword of leases"],
        "limits": ["keyword of limits"],
        "on_rule_error": ["on_rule_error"],
    },
    "Scenario": {
        **dict.fromkeys(("name", "title"), FREE),
        "domain": ["domain of a scenario"],
        "settings": ["setting of a scenario", "axis", "column of a data frame"],
        "quotas": ["quotas of a scenario", "axis of quotas"],
        "clock": ["clock"],
        "leases": ["leases of a scenario"],
        "backpressure": ["backpressure"],
        "on_rule_error": ["on_rule_error"],
        "agents": ["key of a cohort", "axis of a cohort", "axis of another cohort", "override"],
        "objects": "entries have the keys of `ObjectSort`; their names are made here",
        "populations": "its names are examined in tests/scenarios/test_populations.py",
        "collect": ["key of collect"],
        "until": ["function of until"],
        "portrayal": ["field of a portrayal"],
    },
    "AgentCohort": {
        "policy": ["policy of a cohort"],
        "area": FREE,
        "attributes": [
            *("attributes of a cohort", "attributes of a domain"),
            *("attributes of a birth", "attributes of a birth in a deaf domain"),
        ],
        "permissions": ["permissions of a cohort"],
        "options": ["options of a policy", "options of a policy without options"],
    },
    "ObjectSort": {"area": FREE, "fields": "an object has any fields"},
    "Collect": {
        "agents": ["field of collect", "collection of collect"],
        "world": ["function of collect"],
    },
    "ServeConfig": {
        **dict.fromkeys(("host", "tokens", "operator_sha256"), OPENED),
        "cors_origins": "an origin of other machines",
        "claims": ["role of a claim", "token of a claim", "world of a claim"],
        "limits": ["key of limits"],
        "model": ["key of model"],
        "people": ["token of a person", "role of a person"],
        "approvals": ["key of approvals"],
    },
    "ModelConfig": {
        **dict.fromkeys(("name", "base_url", "api_key_env", "price"), OPENED),
        "budget": "an account of the world, which may be opened later: the turn names it",
    },
    "Selection": {
        "agents": ["agent of records"],
        "kinds": ["kind of records"],
        "grep": "a pattern of any text",
    },
    "TableOptions": {"selection": ["agent of records"], "names": ["table of an export"]},
    "Simulation": {
        "domain": ["domain of a scenario"],
        "agents": ["permissions of a cohort", "policy of a cohort"],
        "populations": "its names are examined in tests/scenarios/test_populations.py",
        **dict.fromkeys(("store", "name"), OPENED),
        "quotas": ["quotas of a simulation"],
        "until": ["function of until"],
        "on_rule_error": ["on_rule_error"],
        "collector": ["field of collect"],
        "workers": ["place of workers"],
    },
    "Collector": {
        "agents": ["field of collect", "collection of collect"],
        "world": ["function of collect"],
        "to": OPENED,
    },
    "run_scenarios": {
        "scenarios": ["axis", "axis of a scenario"],
        **dict.fromkeys(("seeds", "executor", "on_progress", "on_notice"), FREE),
        "outcome": ["outcome"],
        **dict.fromkeys(("to", "ray_address", "ship"), OPENED),
        "logs": ["logs"],
        "columns": ["columns of results"],
        "on": ["where"],
    },
}
CONFIGURED = (
    *(OrchestratorConfig, KernelConfig, Scenario, AgentCohort, ObjectSort, Collect, ServeConfig),
    *(ModelConfig, Selection, TableOptions, Simulation, Collector, run_scenarios),
)
NUMBERS = {"int", "float", "bool", "None", "_Count", "_Number"}
"""Types that hold no name; every other field of a configuration is in the table."""


def named_fields(configured: Any) -> set[str]:
    """Return the fields of a configuration, or the parameters of a function, that hold names."""
    annotations = {
        name: str(parameter.annotation).replace("<class '", "").replace("'>", "")
        for name, parameter in inspect.signature(configured).parameters.items()
    }
    return {
        name
        for name, annotation in annotations.items()
        if not set(annotation.split(" | ")) <= NUMBERS and not annotation.startswith(PLAIN)
    }


PLAIN = ("typing.Annotated[int", "typing.Annotated[float", "typing.Optional[typing.Annotated[int")


@pytest.mark.parametrize("configured", CONFIGURED, ids=lambda one: one.__name__)
def test_each_field_that_may_hold_names_has_a_case_or_a_reason(configured: Any) -> None:
    listed = CASES_OF[configured.__name__]
    assert named_fields(configured) == set(listed)
    for cases in listed.values():
        assert isinstance(cases, str) or set(cases) <= set(CASES)


# one misspelled name in a valid configuration

KINDS = ("Move", "Speak", "Interact", "Custom")
SETTINGS = tuple(field.name for field in fields(OrchestratorConfig))
LIMIT_NAMES = tuple(field.name for field in fields(Limits))


def _opened(**config: Any) -> None:
    Kernel(World(), KernelConfig(**config))


VALID: dict[str, tuple[tuple[str, ...], Callable[[str], Any]]] = {
    "quotas": (KINDS, lambda name: _opened(quotas={"Move": QUOTA, name: QUOTA})),
    "default_permissions": (
        KINDS,
        lambda name: _opened(default_permissions=frozenset({"Move", name})),
    ),
    "permissions": (KINDS, lambda name: _register(permissions={"Move", name})),
    "own quotas": (KINDS, lambda name: _register(quotas={name: QUOTA})),
    "cooldowns": (KINDS, lambda name: World(cooldowns={name: 1.0})),
    "attributes": (
        ("position", "team", "inventory"),
        lambda name: _register(**{name: None}),
    ),
    "config": (SETTINGS, lambda name: OrchestratorConfig(**{name: ANY})),
    "limits": (LIMIT_NAMES, lambda name: Limits(**{name: 1})),
    "variables": (
        ("PLACET_STORE", "PLACET_SERVE_PORT", "PLACET_MODEL_NAME", "PLACET_LIMITS_AGENTS_MAX"),
        lambda name: load_settings(environ={name: "1"}, has_file=False),
    ),
    "scenario": (
        ("domain", "settings", "quotas", "objects", "collect", "clock"),
        lambda name: scenario(**{name: {}}),
    ),
    "scenario's quotas": (KINDS, lambda name: simulation(quotas={name: QUOTA})),
    "claims": (("alice", "bob"), lambda name: check_claimants({name: {}}, ["alice", "bob"])),
}


@st.composite
def misspelled(draw: st.DrawFn) -> tuple[str, str, str]:
    """Draw a place of names, a name, and the name with one letter lost, doubled, swapped or new."""
    place = draw(st.sampled_from(sorted(VALID)))
    name = draw(st.sampled_from(VALID[place][0]))
    at = draw(st.integers(0, len(name) - 2))
    swapped = name[:at] + name[at + 1] + name[at] + name[at + 2 :]
    ways = (
        name[:at] + name[at + 1 :],
        name[: at + 1] + name[at:],
        swapped,
        name[:at] + draw(st.sampled_from("xqz_")) + name[at + 1 :],
        name.swapcase(),
    )
    return place, name, draw(st.sampled_from(ways))


@given(misspelled())
def test_one_misspelled_name_is_refused_and_the_right_one_named(
    case: tuple[str, str, str],
) -> None:
    place, name, wrong = case
    names, act = VALID[place]
    if wrong in names or (not wrong.startswith("PLACET_") and place == "variables"):
        return
    with pytest.raises(Exception) as raised:  # noqa: PT011  # of many classes; the text is checked
        act(wrong)
    assert name in str(raised.value), raised.value


@pytest.mark.parametrize(
    ("name", "known", "clause"),
    [
        ("speak", ["Move", "Speak"], "did you mean 'Speak'?"),
        ("zzz", ["Move", "Speak"], "there are Move, Speak"),
        ("zzz", [], "there are none"),
        (None, ["Move"], "there are Move"),
    ],
)
def test_a_clause_names_the_nearest_or_all(name: object, known: list[str], clause: str) -> None:
    assert did_you_mean(name, known) == clause


def test_a_clause_is_bounded() -> None:
    clause = did_you_mean("zzz", [f"kind{number}" for number in range(10_000)])
    assert len(clause) < 300
    assert clause.endswith(", ...")
    assert did_you_mean("xind7", [f"kind{n}" for n in range(100)]) == "did you mean 'kind7'?"


# names in older logs

OLD = {"speak": QUOTA}


async def old_world(store: str) -> None:
    async with Orchestrator(World(), OrchestratorConfig(store=store, quotas=OLD)) as world:
        ann = await world.register_agent("ann", permissions={"Move", "move"}, quotas={"go": QUOTA})
        assert (await ann.submit([ann.intent("Move", to=[1, 1])])).admitted


def test_an_older_log_with_idle_names_is_continued_and_reports_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    store = f"sqlite:///{tmp_path / 'old.db'}"
    with monkeypatch.context() as before:
        for check in ("require_known_settings", "require_kinds"):
            before.setattr(f"placet.kernel.kernel.{check}", lambda *_, **__: None)
        anyio.run(old_world, store)
    capsys.readouterr()

    async def again() -> None:
        async with Orchestrator(World(), OrchestratorConfig(store=store, quotas=OLD)) as world:
            names = world.query_nowait(lambda kernel: kernel.idle_names)
            assert [name for name in ("'speak'", "'go'", "'move'") if name in " ".join(names)]
            assert len(names) == 3
            ann = await world.register_agent("ann", permissions={"Move", "move"})
            verdict = await ann.submit([ann.intent("Move", to=[2, 2])])
            explained = await world.explain("ann", verdict.req_ids[0])
            assert set(names) <= set(explained.notes)
            with pytest.raises(ValueError, match="did you mean 'Move'"):
                await world.register_agent("bob", permissions={"move"})
        reported = capsys.readouterr()
        assert (reported.out + reported.err).count("'speak'") == 1
        with pytest.raises(ValueError, match="quotas: there is no kind 'spek'"):
            await Orchestrator(
                World(), OrchestratorConfig(store=store, quotas={**OLD, "spek": QUOTA})
            ).__aenter__()

    anyio.run(again)
    with closing(open_event_log(store)) as log:
        assert verify_log(log).integrity.is_ok
    run = simulation(store=store, name="world", quotas=OLD, anyway=True)
    assert "'speak'" in capsys.readouterr().err
    run.close()


def test_an_older_world_with_a_hidden_field_of_no_name_is_opened(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    domain = World(observation={"hidden_fields": ["inventroy"]})
    records: list[bytes] = []
    with monkeypatch.context() as before:
        before.setattr(World, "idle_names", lambda _self: ())
        Kernel(domain, sink=records.append)
    (sentence,) = Kernel(domain, history=records).idle_names
    assert sentence.endswith("did you mean 'inventory'?")


# a run that continues another


@pytest.mark.parametrize(
    ("changed", "difference"),
    [
        ({"domain": World(bounds=[[0, 0], [5, 5]])}, "settings.bounds is [[0.0,0.0,0.0],[5.0,5.0"),
        ({"agents": {"folk": (2, still)}}, "the agent folk_3 of the log would not act any more"),
        ({"agents": {"folk": (4, still)}}, "the agent folk_4 would begin after the others"),
        ({"tick_s": 2.0}, "tick_s is 2, in the log 1"),
        ({"quotas": {"Move": QUOTA}}, "quotas is"),
        ({"staleness_threshold": 3}, "staleness_threshold is 3, in the log null"),
    ],
    ids=lambda one: next(iter(one)) if isinstance(one, dict) else "",
)
def test_another_run_does_not_continue_a_log_unless_it_is_stated(
    changed: dict[str, Any], difference: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    same: dict[str, Any] = {"domain": World(), "agents": {"folk": (3, still)}}
    store = f"sqlite:///{tmp_path / 'walk.db'}"
    with Simulation(**same, store=store) as run:
        run.run(ticks=2)
    with Simulation(**same, store=store) as run:
        assert run.run(ticks=3).ticks == 3
    with pytest.raises(ScenarioError) as raised:
        Simulation(**{**same, **changed}, store=store)
    assert difference in str(raised.value)
    assert "anyway=True" in str(raised.value)
    with Simulation(**{**same, **changed}, store=store, anyway=True) as run:
        assert run.run(ticks=4).ticks == 4
    assert difference in capsys.readouterr().err


def test_another_scenario_names_the_keys_that_differ(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path / 'town.db'}"
    with Simulation(scenario(), store=store) as run:
        run.run(ticks=1)
    with pytest.raises(ScenarioError, match=r"agents.folk.count is 3, in the log 2"):
        Simulation(scenario().with_values({"agents.folk.count": 3}), store=store)
    with pytest.raises(ScenarioError, match=r"anyway: only a run of a domain"):
        Simulation(scenario(), store=store, anyway=True)


# fields that may come later


class Late(Domain):
    """A domain whose agents have a field from the third tick on."""

    name = "late"
    version = "1"
    kinds = (Kind("Wait", dict, lambda draft, intent: None),)

    def on_register(self, draft: Any, agent_id: str, attributes: Mapping[str, Any]) -> None:
        draft.create("late.agents", agent_id, {"age": 0})

    def on_tick(self, draft: Any, now: float) -> None:
        if now >= 3 and draft.exists("late.agents", "folk_1"):
            draft.put("late.agents", "folk_1", "prize", 1)


def late_run(folder: Path | None, field: str, ticks: int) -> None:
    with (
        Collector(agents=["age", field], to=folder) as collector,
        Simulation(Late(), agents={"folk": (1, still)}, collector=collector) as run,
    ):
        run.run(ticks=ticks)


@pytest.mark.parametrize("in_folder", [False, True])
def test_a_field_that_comes_later_is_collected_and_one_that_never_comes_is_an_error(
    in_folder: bool, tmp_path: Path
) -> None:
    late_run(tmp_path / "late" if in_folder else None, "prize", 4)
    folder = tmp_path / "never" if in_folder else None
    with pytest.raises(CollectError, match=r"no agent had 'prize' in any row; there are age"):
        late_run(folder, "prize", 2)
    assert folder is None or not list(folder.glob("*.parquet"))


def test_a_field_of_an_earlier_part_is_known_to_a_continued_collector(tmp_path: Path) -> None:
    store, folder = f"sqlite:///{tmp_path / 'late.db'}", tmp_path / "late"

    def run_to(tick: int) -> None:
        collector = Collector(agents=["prize"], to=folder)
        with Simulation(
            Late(), agents={"folk": (1, still)}, store=store, collector=collector
        ) as run:
            run.run(ticks=tick)
            if tick == 4:
                run.kernel.change_agent("folk_1", "removed")
                run._runner.world.flush()
        collector.close()

    run_to(3)
    run_to(4)
    run_to(5)


def test_a_world_without_agents_has_no_missing_field() -> None:
    kernel = Kernel(World())
    with Collector(agents=["positon"]) as collector:
        collector.attach(kernel)
        kernel.step(1.0)
    assert len(collector.tables()["agents"]) == 0


# attributes, and names of the host


@pytest.mark.parametrize(
    "read",
    [
        lambda attributes: attributes["wealth"],
        lambda attributes: "wealth" in attributes,
        lambda attributes: attributes.get("wealth"),
        lambda attributes: attributes.pop("wealth"),
        lambda attributes: attributes.items(),
        lambda attributes: attributes.keys(),
        lambda attributes: attributes.copy(),
        lambda attributes: {**attributes},
        list,
    ],
)
def test_an_attribute_that_a_hook_reads_in_any_way_is_known(read: Callable[..., Any]) -> None:
    class Reading(Wealth):
        def on_register(self, draft: Any, agent_id: str, attributes: Mapping[str, Any]) -> None:
            read(attributes)
            draft.create("wealth.agents", agent_id, {"wealth": 0})

    assert Kernel(Reading()).register_agent("ann", wealth=1).agent_id == "ann"


def test_a_misspelled_attribute_leaves_no_record() -> None:
    records: list[bytes] = []
    kernel = Kernel(Wealth(), sink=records.append)
    digest, count = kernel.world_digest(), len(records)
    with pytest.raises(ValidationError, match="did you mean 'wealth'"):
        kernel.register_agent("ann", welth=1)
    assert (kernel.world_digest(), len(records)) == (digest, count)
    kernel.register_agent("ann", color="red")  # read under a condition, perhaps


class Host:
    """An effect validator with names of its own for permissions."""

    def set_agent_permissions(self, agent_id: str, permissions: set[str]) -> None: ...

    def validate(self, intent: Any) -> None: ...


def test_permissions_may_be_names_of_a_validator_that_takes_them() -> None:
    records: list[bytes] = []
    config = KernelConfig(default_permissions=frozenset({"fly"}))
    validator: Any = Host()
    kernel = Kernel(World(), config, effect_validator=validator, sink=records.append)
    kernel.register_agent("ann", permissions={"swim"})
    again = Kernel(World(), config, effect_validator=validator, history=records)
    assert again.idle_names == ()


def test_an_effect_of_an_older_log_is_known() -> None:
    kernel = Kernel(Wealth())
    kernel.change_executor("bank.old", 1)
    require_effect(kernel.registry, kernel.ledger, "bank.old")
