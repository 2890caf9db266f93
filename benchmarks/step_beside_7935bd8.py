"""How much cheaper is a step than at commit 7935bd8, before a tick's batches were decided together?

    ./dev python benchmarks/step_beside_7935bd8.py [--pairs N] [--towns N] [--folder F] [--json]

Clones that commit from this repository's own history into a folder, makes its environment there
with its own `./dev`, and starts one process for each version (`step_side.py`). They take turns:
each runs one step (L1, L2) or one stretch of intents (W1, W1s) on command, and answers with its
CPU time, because CPU time on a busy machine changes by a factor of two. A figure is the median of
the ratios of such pairs, with quartiles. `placet run town` (L3) alternates as whole runs.

It does not show: wall time; other kinds than `Move`.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final, NamedTuple

from placet_bench.report import machine
from placet_bench.step import Quartiles

COMMIT: Final = "7935bd8"
ROOT: Final = Path(__file__).parents[1]
SIDE: Final = Path(__file__).with_name("step_side.py")
WARM_UP: Final = 3
OLD, NEW = COMMIT, "here"


class Question(NamedTuple):
    """A row of the table: a command of either version, and the bar of the ratio."""

    label: str
    here: str
    there: str
    bar: str
    is_throughput: bool = False


QUESTIONS: Final = (
    Question("L1, 1 000 agents, batches of 1: CPU", "l1", "l1", "≤ 0.5, aim ≤ 0.4"),
    Question("L2, the same in a scenario: CPU", "l2", "l2", "≤ 0.6, aim ≤ 0.4"),
    Question("W1s, batches of 1: throughput ÷ W1 there", "w1s", "w1", "≥ 0.4, aim ≥ 0.5", True),
    Question("W1s: CPU", "w1s", "w1s", ""),
    Question("W1, batches of 10: CPU", "w1", "w1", "≤ 1.05"),
)
TOWN: Final = Question("L3, run town without verification: CPU", "town", "town", "≤ 0.7, aim ≤ 0.5")


def older_version(folder: Path) -> Path:
    """Clone the commit into a folder, if it is not there yet, and return the folder."""
    if not (folder / "pyproject.toml").exists():
        print(f"cloning {COMMIT} into {folder} ...", file=sys.stderr, flush=True)
        known = ["git", "-C", str(ROOT), "cat-file", "-e", f"{COMMIT}^{{commit}}"]
        if subprocess.run(known, check=False, stderr=subprocess.DEVNULL).returncode:
            raise SystemExit(
                f"the history of {ROOT} does not hold {COMMIT}; a shallow clone gets it by: "
                "git fetch --unshallow"
            )
        subprocess.run(
            ["git", "clone", "--quiet", "--no-checkout", str(ROOT), str(folder)], check=True
        )
        subprocess.run(["git", "-C", str(folder), "checkout", "--quiet", COMMIT], check=True)
    return folder


def environment() -> dict[str, str]:
    """Return the variables of a process without those that `./dev` of this version has set."""
    names = ("VIRTUAL_ENV", "UV_PROJECT_ENVIRONMENT", "PYTHONPATH")
    variables = {name: value for name, value in os.environ.items() if name not in names}
    own = str(Path(sys.prefix) / "bin")
    folders = variables.get("PATH", "").split(os.pathsep)
    variables["PATH"] = os.pathsep.join(folder for folder in folders if folder != own)
    return variables


class Side:
    """A process of one version, which runs a turn when it is asked to; a context manager."""

    def __init__(self, name: str, command: Sequence[str]) -> None:
        self.name = name
        self._process = subprocess.Popen(
            [*command, str(SIDE)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment(),
        )

    def __enter__(self) -> "Side":
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()

    def turn(self, command: str) -> float:
        """Return the CPU microseconds of one intent, measured by the process."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{command}\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        if not answer:
            raise SystemExit(f"the process of {self.name} ended during {command}; see above")
        return float(json.loads(answer)["cpu_us"])


def town(command: Sequence[str]) -> float:
    """Return the CPU seconds of `placet run town` and of its children."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    with tempfile.TemporaryDirectory(prefix="placet-bench-") as folder:
        subprocess.run(
            [*command, str(SIDE), "town"],
            cwd=folder,
            env=environment(),
            check=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def alternate(
    question: Question, turns: Mapping[str, Callable[[str], float]], pairs: int
) -> dict[str, Any]:
    """Run pairs of turns, the first of a pair in alternation, and return the costs and ratios."""
    commands = {NEW: question.here, OLD: question.there}
    costs: dict[str, list[float]] = {NEW: [], OLD: []}
    for number in range(pairs):
        for name in (NEW, OLD) if number % 2 else (OLD, NEW):
            costs[name].append(turns[name](commands[name]))
    ratios = [new / old for new, old in zip(costs[NEW], costs[OLD], strict=True)]
    if question.is_throughput:
        ratios = [1 / ratio for ratio in ratios]
    return {
        "question": question.label,
        "bar": question.bar,
        "pairs": pairs,
        "ratio": Quartiles.of(ratios).as_dict(),
        "here": Quartiles.of(costs[NEW]).as_dict(),
        "there": Quartiles.of(costs[OLD]).as_dict(),
    }


def measured(folder: Path, pairs: int, towns: int) -> list[dict[str, Any]]:
    """Ask every question, and return the answers."""
    python = {OLD: [str(older_version(folder) / "dev"), "python"], NEW: [sys.executable]}
    answers = []
    with ExitStack() as stack:
        sides = {name: stack.enter_context(Side(name, command)) for name, command in python.items()}
        turns = {name: side.turn for name, side in sides.items()}
        for question in QUESTIONS:
            print(f"{question.label} ...", file=sys.stderr, flush=True)
            alternate(question, turns, WARM_UP)
            answers.append(alternate(question, turns, pairs))
    if towns:
        print(f"{TOWN.label} ...", file=sys.stderr, flush=True)
        runs = {name: lambda _, run=command: town(run) for name, command in python.items()}
        answers.append(alternate(TOWN, runs, towns))
    return answers


def as_line(answer: Mapping[str, Any]) -> str:
    """Return an answer as a line of the table."""

    def text(name: str, digits: int) -> str:
        low, middle, high = (answer[name][part] for part in ("p25", "median", "p75"))
        return f"{middle:.{digits}f} ({low:.{digits}f}-{high:.{digits}f})"

    cells = (text("ratio", 3), text("here", 1), text("there", 1))
    return f"{answer['question']:44} {cells[0]:22} {cells[1]:20} {cells[2]:20} {answer['bar']}"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--pairs", type=int, default=41, help="pairs of turns of each question")
    parser.add_argument("--towns", type=int, default=5, help="pairs of runs of town; 0 for none")
    parser.add_argument(
        "--folder",
        type=Path,
        default=ROOT / "build" / COMMIT,
        help="where the commit is cloned to, and kept",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    options = parser.parse_args()
    results = measured(options.folder, max(options.pairs, 2), options.towns)
    if options.json:
        print(json.dumps({"machine": machine(), "answers": results}, indent=2))
    else:
        head = f"{'median (p25-p75) of the pairs':44} {'ratio':22} {'here':20} {COMMIT:20} bar"
        print(head)
        for result in results:
            print(as_line(result))
        print("costs are CPU microseconds of an intent; of town, CPU seconds of the run")
        print(f"CPython {sys.version.split()[0]}; {machine()}; {options.pairs} pairs")
