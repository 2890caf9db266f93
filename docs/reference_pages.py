"""The pages of docs/reference that are generated from the code.

    ./dev python -m docs.reference_pages      # writes them all, the Python API too

`tests/docs/test_reference_pages.py` checks that each is current.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import MISSING, Field, fields
from importlib import import_module
from inspect import getdoc
from pathlib import Path
from typing import Any, Final

from prometheus_client.core import Metric
from typer.core import TyperGroup

from docs import python_api
from placet.actors.metrics import Counters
from placet.cli.command_table import COMMANDS, command_of
from placet.kernel.gate import STAGES
from placet.plugins import entry_points
from placet.runtime.config import OrchestratorConfig
from placet.runtime.telemetry.prometheus import CountersCollector
from placet.schemas.refusal import RefusalCode
from placet.server.approvals_config import ApprovalsConfig
from placet.server.config import ServeConfig
from placet.server.model_config import ModelConfig

FOLDER: Final = Path(__file__).parent / "reference"
_ATTRIBUTE: Final = re.compile(r"^    (\w+): (.*?)(?=^    \w|^\S|\Z)", re.MULTILINE | re.DOTALL)
_ELSEWHERE: Final = frozenset({"limits", "model", "approvals", "origin"})
"""Fields of a configuration that are tables of their own, or set by no file."""

_PASSING: Final = frozenset({RefusalCode.LEASED, RefusalCode.BUDGET_EXCEEDED})
"""Codes of a stage with final refusals that pass with time."""

TABLES: Final[Mapping[str, type]] = {
    "": OrchestratorConfig,
    "serve.": ServeConfig,
    "model.": ModelConfig,
    "approvals.": ApprovalsConfig,
}
"""Prefix of the keys of a table of `placet.toml` -> its class."""


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table of Markdown."""
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(
        "| " + " | ".join(cell.replace("|", r"\|") for cell in row) + " |" for row in lines
    )


def prose(text: str) -> str:
    """Return a paragraph on one line."""
    return " ".join(text.split())


def page(title: str, *parts: str) -> str:
    """Return a page with a title and a note of its source."""
    source = "This page is generated from the code: `./dev python -m docs.reference_pages`."
    return "\n\n".join([f"# {title}", *parts, source]) + "\n"


# ---------------------------------------------------------------- metrics


def metrics() -> str:
    """Return the page of the families of metrics."""
    families = CountersCollector(Counters([])).collect()
    rows = [
        (f"`{name}`", kind, labels, text) for name, kind, labels, text in map(_family, families)
    ]
    return page(
        "Metrics",
        prose(
            """
            Each world has its own registry. `placet serve` answers `GET /metrics`
            (for the operator, or for all with `serve.metrics_open`), and `metrics_port`
            serves the metrics of one world on loopback, in the format of Prometheus.
            """
        ),
        table(["family", "type", "labels", "meaning"], sorted(rows)),
        prose(
            """
            A family with labels has a series for each value that occurred. A histogram has
            `_bucket`, `_sum` and `_count`; times are in seconds.
            """
        ),
    )


def _family(family: Metric) -> tuple[str, str, str, str]:
    (labels,) = ([*getattr(family, "_labelnames", ())],)
    name = family.name + "_total" * (family.type == "counter")
    return (
        name,
        family.type,
        ", ".join(f"`{label}`" for label in labels),
        family.documentation,
    )


# ---------------------------------------------------------------- refusal codes


def refusals() -> str:
    """Return the page of the refusal codes, in order of precedence."""
    meanings = _below(RefusalCode)
    rows = [
        (
            row.stage.value,
            f"`{code.value}`",
            str(status),
            "yes" if row.is_final and code not in _PASSING else "no",
            meanings[code.name],
        )
        for row in STAGES
        for code, status in row.codes.items()
    ]
    return page(
        "Refusal codes",
        prose(
            """
            A batch is refused at the first stage where one of its intents
            fails; the codes are in the order in which they are checked. *Final*: the
            refusal is a record, and the same `req_id` gets the same answer again. Other
            refusals leave no trace, so the same batch may be sent again. `leased` and
            `budget_exceeded` pass with time and are not final. Each refusal of a
            scheduled batch at its time is final, whatever its code.
            """
        ),
        table(["stage", "code", "HTTP", "final", "meaning"], rows),
        prose(
            """
            A domain has codes of its own, `<domain>.<code>`, of the stage `domain` (422,
            final): `placet kinds` lists the kinds. A refusal also has `message`, `at`,
            `retry_after`, `suggestions`, `changed` and `details`
            ([`Refusal`](python_api.md)). [HTTP interface](http_api.md) has the errors that
            are no refusals.
            """
        ),
    )


def _below(cls: type) -> dict[str, str]:
    """Return the docstring below each member of a class."""
    return python_api.texts_below(cls.__module__, cls.__name__)


# ---------------------------------------------------------------- configuration


def configuration() -> str:
    """Return the page of the keys of a server's configuration."""
    parts = []
    for prefix, cls in TABLES.items():
        title = f"`[{prefix.rstrip('.')}]`" if prefix else "The world"
        texts = {
            name: " ".join(text.split()) for name, text in _ATTRIBUTE.findall(getdoc(cls) or "")
        }
        rows = [
            (f"`{prefix}{field.name}`", f"`{_default(field)}`", texts[field.name])
            for field in fields(cls)
            if field.name not in _ELSEWHERE | ({"people"} if prefix else set())
        ]
        parts.append(f"## {title}\n\n" + table(["key", "default", "meaning"], rows))
    return page(
        "Configuration",
        prose(
            """
            `placet serve` reads `placet.toml` in the current folder, or
            `--config FILE`. Each key may also be a variable of the environment, `PLACET_`
            and the key in capitals with `_` for the dot (`PLACET_SERVE_PORT`), or an option
            `--set KEY=VALUE`. The order of precedence: options, environment, file, the log
            in the store, defaults. `placet config` prints every key with its value and
            source, as a file. In Python the keys of the world are keywords of
            `OrchestratorConfig`.
            """
        ),
        prose(
            """
            `domain` (default `world`) names the domain, and the table
            `[settings]` has its settings. The table `[people]` has the roles of each person
            who decides about requests for approval. `limits.*` and `serve.limits.*` are in
            [limits](limits.md).
            """
        ),
        *parts,
    )


def _default(field: "Field[Any]") -> str:
    value = field.default if field.default_factory is MISSING else field.default_factory()
    return str(value).lower() if isinstance(value, bool) else str(value)


# ---------------------------------------------------------------- command line


def options() -> str:
    """Return the page of all commands with their arguments and options."""
    modules = [name.replace("-", "_") for name in COMMANDS]
    targets = {
        name: getattr(import_module(f"placet.cli.commands.{name}"), name) for name in modules
    }
    for name, plugin in entry_points.plugins(entry_points.COMMANDS).items():
        targets[name] = plugin.load()
    parts: list[str] = []
    for name, target in targets.items():
        parts += _command(f"placet {name.replace('_', '-')}", command_of(target))
    return page(
        "Options of all commands",
        prose(
            """
            `placet COMMAND --help` prints the same. [The command line](command_line.md) says what
            the commands do, their exit codes and their JSON. The last ones are commands of
            plug-ins.
            """
        ),
        *parts,
    )


def _command(name: str, command: Any) -> Iterator[str]:  # noqa: ANN401  # no public type
    if isinstance(command, TyperGroup):
        for child, its in command.commands.items():
            yield from _command(f"{name} {child}", its)
        return
    summary = (command.help or "").partition("\n\n")[0].replace("\n", " ")
    shown = (each for each in command.params if not getattr(each, "hidden", False))
    rows = [_option(parameter) for parameter in shown]
    yield f"## `{name}`\n\n{summary}\n\n" + table(["argument, option", "default", "meaning"], rows)


def _option(parameter: Any) -> tuple[str, str, str]:  # noqa: ANN401  # typer exports no type of it
    is_option = parameter.param_type_name == "option"
    names = [*parameter.opts, *parameter.secondary_opts] if is_option else [parameter.name.upper()]
    default = parameter.default
    is_shown = default not in (None, False, (), []) and not callable(default)
    meaning = getattr(parameter, "help", None) or ""
    return f"`{', '.join(names)}`", f"`{default}`" if is_shown else "", meaning.replace("\n", " ")


PAGES: Final[Mapping[str, Callable[[], str]]] = {
    "metrics": metrics,
    "refusals": refusals,
    "configuration": configuration,
    "options": options,
}


if __name__ == "__main__":
    for name, made in PAGES.items():
        (FOLDER / f"{name}.md").write_text(made(), encoding="utf-8")
    python_api.PAGE.write_text(python_api.list_of_names(), encoding="utf-8")
