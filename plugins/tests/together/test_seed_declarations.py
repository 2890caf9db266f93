"""The types that the source documents 000, 002 and 004 declare, compared with ours."""

import ast
import dataclasses
import inspect
import re
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import placet.agents
import placet_design as design
from placet_files.frontend import codi

TEXT = (Path(__file__).parent / "seeds" / "declarations.md").read_text("utf-8")
PLACES: dict[str, ModuleType] = {"000": design, "002": placet.agents, "004": codi}
EMPTY = inspect.Parameter.empty


def declarations() -> list[tuple[str, ast.ClassDef]]:
    found = []
    for document, text in re.findall(r"(?ms)^## (\d{3})\n(.*?)(?=^## |\Z)", TEXT):
        for block in re.findall(r"```python\n(.*?)```", text, re.DOTALL):
            classes = (node for node in ast.parse(block).body if isinstance(node, ast.ClassDef))
            found += [(document, node) for node in classes]
    return found


def members_of(node: ast.ClassDef) -> list[tuple[str, Any]]:
    """Return the members of an enum."""
    return [
        (ast.unparse(part.targets[0]), ast.literal_eval(part.value))
        for part in node.body
        if isinstance(part, ast.Assign)
    ]


def required_of(node: ast.ClassDef) -> list[tuple[str, bool]]:
    """Return the fields of a dataclass, and whether each must be given."""
    return [
        (ast.unparse(part.target), part.value is None)
        for part in node.body
        if isinstance(part, ast.AnnAssign)
    ]


def has_no_default(field: dataclasses.Field[Any]) -> bool:
    return field.default is field.default_factory is dataclasses.MISSING


@pytest.mark.parametrize(
    ("document", "node"), declarations(), ids=lambda value: getattr(value, "name", value)
)
def test_a_declared_type_has_the_names_the_order_and_the_defaults(document, node):
    ours = getattr(PLACES[document], node.name)
    if members := members_of(node):
        assert members == [(one.name, one.value) for one in ours]
    if declared := required_of(node):
        fields = dataclasses.fields(ours)
        if node.name == "DesignState":  # shown in parts
            assert set(dict(declared)) <= {field.name for field in fields}
        else:
            assert [field.name for field in fields][: len(declared)] == list(dict(declared))
        needed = {field.name for field in fields if has_no_default(field)}
        assert needed <= {name for name, is_required in declared if is_required}
        frozen = any("frozen=True" in ast.unparse(one) for one in node.decorator_list)
        assert ours.__dataclass_params__.frozen is frozen
    for method in node.body:
        if isinstance(method, ast.FunctionDef):
            assert_method(ours, method)


def assert_method(ours: Any, method: ast.FunctionDef) -> None:
    is_property = any(ast.unparse(one) == "property" for one in method.decorator_list)
    found = inspect.getattr_static(ours, method.name)
    assert isinstance(found, property) is is_property
    if is_property:
        return
    parameters = inspect.signature(found).parameters
    assert list(parameters) == [argument.arg for argument in method.args.args]
    with_default = [name for name, one in parameters.items() if one.default is not EMPTY]
    defaults = len(method.args.defaults)
    assert with_default == [one.arg for one in method.args.args[-defaults:] if defaults]


def test_every_declaration_of_the_documents_is_there():
    names = [node.name for _, node in declarations()]
    assert names == [
        *("IntentType", "ActionType", "Intent", "Action", "ActionPlan", "ValidationResult"),
        *("DesignState", "DesignState", "AgentAdapter", "Action"),
    ]
