"""Outcome functions: a question about the state at the end of a run, answered by yes or no.

    def bank_failed(state):
        return state["bank.banks"]["bank"]["closed"]

A worker process is given the function by name, `module:function`, and imports it.
"""

import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Final, TypeAlias

from placet.plugins.functions import find_function
from placet.schemas.codec import Json
from placet.schemas.errors import PlacetError
from placet.sweeps.errors import LabError

Outcome: TypeAlias = Callable[[Mapping[str, Mapping[str, Mapping[str, Json]]]], bool]
"""Called with a read-only `WorldState`, `collection -> entity -> field -> value`, as `until` is."""


def find_outcome(spec: str) -> Outcome:
    """Return an outcome function by `module:function`, also of a module in the current folder.

    Raises:
        LabError: There is no such function, or its module cannot be imported.
    """
    if spec in _here:
        return _here[spec]
    try:
        return find_function(spec)
    except LookupError as error:
        raise LabError(f"the outcome: {error}") from error


def spec_of(outcome: Outcome | str) -> str:
    """Return the name under which another process finds an outcome function.

    Raises:
        LabError: Another process cannot find it.
    """
    if isinstance(outcome, str):
        return outcome
    module = getattr(outcome, "__module__", "")
    name = getattr(outcome, "__qualname__", "")
    script = getattr(sys.modules["__main__"], "__file__", None) or ""
    is_typed_in = module == "__main__" and not Path(script).is_file()
    if is_typed_in or not name.isidentifier():
        raise LabError(
            f"a worker process cannot import the outcome {name or outcome!r}: move it into a "
            "module, at its top level, and name it as module:function; or use jobs=1, which runs "
            "in this process"
        )
    return f"{module}:{name}"


HERE: Final = "<here>:"
"""Begins the names of outcome functions that this process alone can find."""

_here: Final[dict[str, Outcome]] = {}


def specs_here(outcomes: Iterable[Outcome | str], *, is_kept: bool) -> list[str]:
    """Return the names of outcome functions for runs in this process, where any function will do.

    Args:
        outcomes: The functions, or their names.
        is_kept: The rows are kept in a study, which must notice if a function has changed.

    Raises:
        LabError: Two functions without a module have one name, or rows are kept.
    """
    specs, given = [], dict.fromkeys(outcomes)
    for outcome in given:
        try:
            specs.append(spec_of(outcome))
            continue
        except LabError as error:
            if is_kept or isinstance(outcome, str):
                raise LabError(f"{error}, and no folder of a study") from error
        spec = f"{HERE}{name_of(outcome)}"
        if spec in specs:
            raise LabError(f"two outcome functions have the name {name_of(outcome)}: rename one")
        _here[spec] = outcome
        specs.append(spec)
    return specs


def name_of(outcome: Outcome | str) -> str:
    """Return the name of an outcome function, for people."""
    return outcome if isinstance(outcome, str) else getattr(outcome, "__name__", repr(outcome))


def decided(outcome: Outcome, state: Mapping[str, Mapping[str, Mapping[str, Json]]]) -> bool:
    """Return the answer of an outcome function for a state.

    Raises:
        LabError: It raised, or answered neither True nor False.
    """
    name = name_of(outcome)
    try:
        answer = outcome(state)
    except PlacetError:
        raise
    except (Exception, SystemExit) as error:  # it is code of the user, and the error is reported
        raise LabError(f"the outcome function {name} raised {error!r}") from error
    if type(answer).__name__ not in {"bool", "bool_"}:  # those of numpy are no subclass of bool
        raise LabError(f"the outcome function {name} returned {answer!r}, expected True or False")
    return bool(answer)
