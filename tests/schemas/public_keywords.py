"""The public names of a module that take options, and whether each explains an unknown one."""

import inspect
from collections.abc import Collection
from enum import Enum
from importlib import import_module

import msgspec
import pydantic
import pytest
from pydantic.dataclasses import is_pydantic_dataclass

_OF_OTHERS = (BaseException, Enum, dict, tuple, msgspec.Struct, pydantic.BaseModel)
"""Bases with texts of their own."""

_OPTIONS_MIN = 2


def with_options(module, results: Collection[str] = ()):
    """Yield the public classes and functions with two or more options, by their names."""
    for name in import_module(module).__all__:
        called = getattr(import_module(module), name)
        is_defined = inspect.isclass(called) or inspect.isfunction(called)
        if is_defined and not _explains_itself(called) and name not in results:
            parameters = inspect.signature(called).parameters.values()
            options = [each for each in parameters if each.default is not each.empty]
            if len(options) >= _OPTIONS_MIN:
                yield f"{module}.{name}", called


def _explains_itself(called):
    return inspect.isclass(called) and (
        issubclass(called, _OF_OTHERS) or is_pydantic_dataclass(called)
    )


def assert_keyword_is_explained(name, called):
    """Check that an unknown keyword is refused by the name of what was called."""
    name = name.rpartition(".")[2]
    with pytest.raises(TypeError, match=f"^{name} has no parameter 'no such keyword'; "):
        called(**{"no such keyword": 1})
