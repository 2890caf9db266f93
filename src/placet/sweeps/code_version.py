"""The version of the code that a run executes, so that a study never mixes two of them unnoticed.

It consists of named parts: the fingerprint of the domain's rules (that of a log's header), the
version of placet and of the package of each module that the scenario names, and a hash of the bytes
of these modules and of the modules beside them that they import.
"""

import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from importlib.metadata import PackageNotFoundError, packages_distributions, version
from types import ModuleType

from placet.kernel.plugin.registry import Registry
from placet.plugins.domains import find_domain
from placet.scenarios.collecting import collector_of
from placet.scenarios.on_ray.modules import file_of_module, local_modules, modules_of
from placet.scenarios.opening import domain_of, require_kinds_of
from placet.scenarios.policies import column_policies_of, find_policy, policies_of
from placet.scenarios.scenario import Scenario
from placet.sweeps.outcome import find_outcome


@dataclass(frozen=True, slots=True)
class CodeVersion:
    """The code of a run.

    Attributes:
        parts: Name of a part -> its version or hash; without the rules.
        rules: Fingerprint of the domain's rules, which depends on the settings of the scenario.
    """

    parts: Mapping[str, str]
    rules: str

    @property
    def parts_digest(self) -> str:
        """Hash of `parts`, 8 hexadecimal digits."""
        return _digest("".join(f"{name}={value};" for name, value in sorted(self.parts.items())))

    @property
    def digest(self) -> str:
        """Hash of all, 8 hexadecimal digits."""
        return _digest(f"{self.parts_digest} {self.rules}")

    def changes_since(self, parts: Iterable[Mapping[str, str]], rules: Sequence[str]) -> list[str]:
        """Return what differs from all earlier versions, as sentences.

        Args:
            parts: The parts of the earlier versions of a study.
            rules: The earlier fingerprints for the same scenario.
        """
        earlier, changes = list(parts), []
        for name, value in self.parts.items():
            values = [version[name] for version in earlier if name in version]
            if values and value not in values:
                changes.append(f"{_described(name)} was {values[-1]} and is {value}")
        if not changes and rules and self.rules not in rules:
            changes.append(f"the domain's rules were {rules[-1]} and are {self.rules}")
        return changes


def _digest(text: str) -> str:
    return sha256(text.encode()).hexdigest()[:8]


class CodeReader:
    """Reads the versions of the code that scenarios name, here and now; each file once.

    Args:
        outcomes: Outcome functions, as `module:function`.

    Raises:
        LabError: An outcome function does not exist.
    """

    def __init__(self, outcomes: Sequence[str] = ()) -> None:
        self._outcomes = tuple(outcomes)
        self._parts: dict[tuple[object, ...], dict[str, str]] = {}
        named_modules("world", (), self._outcomes)

    def version_of(self, scenario: Scenario) -> CodeVersion:
        """Return the version of the code of a scenario.

        Raises:
            ScenarioError: The domain or a policy does not exist, or rejects its settings.
        """
        domain = domain_of(scenario)
        require_kinds_of(scenario, domain)
        collector_of(scenario, None)
        policies_of(scenario.name, scenario.agents)
        column_policies_of(scenario.name, scenario.populations)
        policies = frozenset(scenario.policy_names)
        collected = () if scenario.collect is None else scenario.collect.functions
        key = (scenario.domain, policies, collected)
        if key not in self._parts:
            functions = (*self._outcomes, *collected)
            self._parts[key] = _read_parts(scenario.domain, sorted(policies), functions)
        return CodeVersion(self._parts[key], Registry([domain]).fingerprint)


def named_modules(domain: str, policies: Iterable[str], outcomes: Iterable[str]) -> set[ModuleType]:
    """Return the modules of a domain, of policies and of outcome functions."""
    targets = [find_domain(domain), *map(find_policy, policies), *map(find_outcome, outcomes)]
    return modules_of(targets, (domain, *policies, *outcomes))


def _read_parts(domain: str, policies: Sequence[str], outcomes: Sequence[str]) -> dict[str, str]:
    parts = {"placet": _version_of("placet") or "a source tree"}
    for module in local_modules(named_modules(domain, policies, outcomes)):
        path = file_of_module(module)
        assert path is not None, "a local module has a file"
        parts[f"module {module.__name__}"] = sha256(path.read_bytes()).hexdigest()[:16]
        for package in _distributions().get(module.__name__.partition(".")[0], ()):
            parts[f"package {package}"] = _version_of(package) or "not installed"
    return parts | {f"outcome {spec}": "computed" for spec in outcomes}


@cache
def _distributions() -> Mapping[str, Sequence[str]]:
    """Return the names of the installed packages by top-level module; 20 ms, so read once."""
    return packages_distributions()


def _version_of(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _described(name: str) -> str:
    kind, _, rest = name.partition(" ")
    if kind == "module" and rest in sys.modules:
        return f"module {rest} ({file_of_module(sys.modules[rest])})"
    return name
