"""ACTION_INTENT_CONTRACT_v1: its catalogue, its three rules, its flow."""

import dataclasses
import zipfile
from pathlib import Path
from typing import Any

import pytest

from placet.agents import PlannerOutput, ScriptedAdapter, Session
from placet_files import Files
from placet_files.frontend.codi import (
    Action,
    ActionBuilder,
    AIPlanner,
    Executor,
    FileTool,
    ToolFailed,
    ToolManager,
    ToolUnregistered,
)

PARAMS: dict[str, dict[str, Any]] = {
    "create_file": {"filename": "a.txt", "content": "one two"},
    "analyze_text": {"path": "a.txt"},
    "inspect_zip": {"zip_path": "a.zip"},
}


def test_an_action_has_a_type_a_tool_and_params() -> None:
    assert [one.name for one in dataclasses.fields(Action)] == ["type", "tool", "params"]


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("create_file", "CREATE_FILE"),
        ("analyze_text", "ANALYZE_TEXT"),
        ("inspect_zip", "INSPECT_ZIP"),
    ],
)
def test_the_catalogue_is_as_documented(name: str, kind: str) -> None:
    built = ActionBuilder().build({"name": name, "params": PARAMS[name]})
    assert built == Action(kind, "FileTool", PARAMS[name])


@pytest.mark.parametrize(
    "intent",
    [
        {"name": "delete_file", "params": {}},
        {"name": "CreateFile", "params": PARAMS["create_file"]},
        {"name": "create file", "params": PARAMS["create_file"]},
        {"name": "", "params": {}},
        {"name": 7, "params": {}},
        {"name": ["create_file"], "params": {}},
        {"params": {}},
        {},
        [],
        None,
        "create_file",
    ],
)
def test_rule_1_an_unknown_action_fails_immediately(intent: Any) -> None:
    with pytest.raises(ValueError, match="intent"):
        ActionBuilder().build(intent)


@pytest.mark.parametrize(
    ("name", "params", "says"),
    [
        ("create_file", {"filename": "a.txt"}, "needs content"),
        ("create_file", {}, "needs filename, content"),
        ("analyze_text", {}, "needs path"),
        ("inspect_zip", {"path": "a.zip"}, "needs zip_path"),
        ("analyze_text", {"path": "a.txt", "mode": "fast"}, "and not mode"),
        ("analyze_text", None, "are an object"),
        ("analyze_text", [], "are an object"),
    ],
)
def test_rule_2_a_missing_parameter_is_an_error(name: str, params: Any, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        ActionBuilder().build({"name": name, "params": params})
    with pytest.raises(ValueError, match="exactly a name and params"):
        ActionBuilder().build({"name": name})


def test_rule_3_a_tool_that_is_not_registered_fails(tmp_path: Path) -> None:
    action = ActionBuilder().build({"name": "analyze_text", "params": PARAMS["analyze_text"]})
    with pytest.raises(ToolUnregistered, match="'FileTool' of ANALYZE_TEXT is not registered"):
        Executor(ToolManager()).run([action])
    manager = ToolManager()
    manager.register("FileTool", FileTool(str(tmp_path)))
    with pytest.raises(ValueError, match="already"):
        manager.register("FileTool", FileTool(str(tmp_path)))


def executor(root: Path) -> Executor:
    manager = ToolManager()
    manager.register("FileTool", FileTool(str(root)))
    return Executor(manager)


def test_the_documented_flow_runs_end_to_end(tmp_path: Path) -> None:
    """Objective > AIPlanner > List[Intent] > ActionBuilder > Executor > ToolManager > result."""
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("inside.txt", "x")
    steps = [(f"files.{name}", params) for name, params in PARAMS.items()]
    intents = AIPlanner(ScriptedAdapter([steps])).plan("write it and look", files=["a.zip"])
    assert intents == [{"name": name, "params": params} for name, params in PARAMS.items()]
    actions = [ActionBuilder().build(intent) for intent in intents]
    created, figures, listing = executor(tmp_path).run(actions)
    assert (tmp_path / "a.txt").read_text(encoding="utf-8") == "one two"
    assert (created["bytes"], figures["words"]) == (7, 2)
    assert listing["path"] == "a.zip"


@pytest.mark.parametrize(
    ("action", "code"),
    [
        (Action("CREATE_FILE", "FileTool", {"filename": "../a", "content": ""}), "path_traversal"),
        (Action("CREATE_FILE", "FileTool", {"filename": "/a", "content": ""}), "path_absolute"),
        (Action("CREATE_FILE", "FileTool", {"filename": "a"}), "payload_invalid"),
        (Action("ANALYZE_TEXT", "FileTool", {"path": "nothing.txt"}), "not_found"),
        (Action("ERASE_DISK", "FileTool", {}), "kind_unknown"),
    ],
)
def test_the_first_failure_is_raised_and_ends_the_run(
    tmp_path: Path, action: Action, code: str
) -> None:
    after = Action("CREATE_FILE", "FileTool", {"filename": "after.txt", "content": ""})
    runs = executor(tmp_path)
    with pytest.raises(ToolFailed, match=code):
        runs.run([action, after])
    assert list(tmp_path.iterdir()) == []
    assert runs.run([after])[0]["path"] == "after.txt", "a failure leaves the tool usable"


@pytest.mark.parametrize(
    ("adapter", "says"),
    [
        (None, "planner_unconfigured"),
        (ScriptedAdapter(["{"]), "expected one JSON object"),
        (ScriptedAdapter([[("files.delete", {})]]), "does not exist"),
        (lambda _: PlannerOutput(text="I will do it"), "said"),
        (
            ScriptedAdapter(
                [
                    {
                        "version": "placet.plan/1",
                        "goal": "g",
                        "base_seq": 0,
                        "stop": {"code": "unsafe_goal", "message": "no"},
                    }
                ]
            ),
            "unsafe_goal: no",
        ),
    ],
)
def test_no_plan_is_degraded_to_a_basic_one(adapter: Any, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        AIPlanner(adapter).plan("do something")


class OwnPlanner(AIPlanner):
    """A custom planner."""

    def plan(self, objective: str, files: Any = ()) -> list[dict[str, Any]]:
        return [{"name": "create_file", "params": {"filename": "own.txt", "content": objective}}]


@pytest.mark.anyio
async def test_a_planner_is_an_adapter(tmp_path: Path) -> None:
    for planner in (OwnPlanner(), AIPlanner(ScriptedAdapter([[("files.analyze_text",
        {"path": "own.txt"})]]))):  # fmt: skip
        domain = Files(tmp_path)
        async with Session.open(domain=domain, adapter=planner, mode="autonomous") as session:
            turn = await session.send("hello there")
            assert turn.outcome == "applied", turn
    async with Session.open(domain=Files(tmp_path), adapter=AIPlanner()) as session:
        assert (await session.send("hello")).stop == "planner_unavailable"
