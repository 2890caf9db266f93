"""A process without numpy: worlds without tables run, and tables name the extra to install."""

import subprocess
import sys
from pathlib import Path

from placet.kernel import Kernel
from placet.schemas.codec import canonical
from tests.kernel.columns.steps import opened

PRELUDE = """
import sys
from pathlib import Path


class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "numpy":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


sys.meta_path.insert(0, Blocked())
from placet.kernel import Domain, Field, Kernel, Kind, RecordList, Table
from placet.kernel.log.replay import folded
from placet.kernel.log.snapshot import load
from placet.schemas.codec import from_canonical
from placet.schemas.errors import MissingExtraError


def refused(call):
    try:
        call()
    except MissingExtraError as error:
        assert "pip install '.[arrays]'` in a clone of placet" in str(error), error
        assert str(error).startswith(sys.argv[2]), error
        print("refused")
    assert "numpy" not in sys.modules


class Birds(Domain):
    name, version = "sky", "1"
    tables = (Table("sky.birds", {"age": Field("i4")}),)
    kinds = (Kind("Age", {"age": Field("i4")}, rows=print, table="sky.birds"),)


class Notes(Domain):
    name, version = "notes", "1"
    kinds = (Kind("Note", dict, lambda draft, intent: draft.create("notes.all", "a")),)
"""


def run(program: str, data: bytes, tmp_path: Path, begin: str = "") -> str:
    """Run a program in a process in which numpy cannot be imported; return what it prints."""
    file = tmp_path / "data"
    file.write_bytes(data)
    command = [sys.executable, "-c", PRELUDE + program, str(file), begin]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # this interpreter
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_a_world_without_tables_runs(tmp_path: Path) -> None:
    program = """
log = RecordList()
kernel = Kernel(Notes(), sink=log)
kernel.register_agent("ann")
mark = kernel.mark()
assert kernel.decide(kernel.intent("Note", {}, agent="ann")).admitted
assert folded(log).state.digest().hex() == kernel.digest()
kernel.tree.cut()
import placet.scenarios, placet.runtime, placet.lab, placet.testing
kernel.tick(1.0)
kernel.rollback(mark)
assert "numpy" not in sys.modules
print("ran")
"""
    assert run(program, b"", tmp_path) == "ran"


def test_a_domain_with_a_table_names_the_extra(tmp_path: Path) -> None:
    assert run("refused(lambda: Kernel(Birds()))", b"", tmp_path, "the world") == "refused"


def test_a_log_with_a_table_names_the_extra(tmp_path: Path) -> None:
    _, log = opened(1)
    program = """
refused(lambda: folded(from_canonical(Path(sys.argv[1]).read_bytes())))
"""
    assert run(program, canonical([*log]), tmp_path, "the log") == "refused"


def _loading(kernel: Kernel, tmp_path: Path) -> str:
    program = """
from placet.kernel.ledger.ledger import GateSettings, Ledger
from placet.schemas.config import KernelConfig
world = from_canonical(Path(sys.argv[1]).read_bytes())[0]
refused(lambda: load(world, Ledger(GateSettings.of(KernelConfig())), 9))
"""
    return run(program, kernel.snapshot(), tmp_path, "the snapshot")


def test_a_snapshot_with_a_table_names_the_extra(tmp_path: Path) -> None:
    assert _loading(opened(1)[0], tmp_path) == "refused"
    assert _loading(opened(1, with_birds=False)[0], tmp_path) == "refused"


def test_a_world_of_cells_runs(tmp_path: Path) -> None:
    program = """
from placet.domains.space import Grid, Occupancy, scale_free

grid, network = Grid(5, 5, torus=True), scale_free(9, 2, seed=1)
places = Occupancy(grid, "forest.foxes", "forest.cells")


class Forest(Domain):
    name, version = "forest", "1"
    kinds = (
        Kind("Go", dict, lambda draft, intent: places.move(draft, "ann", intent["payload"]["to"])),
    )

    def on_register(self, draft, agent_id, attributes):
        draft.create("forest.foxes", agent_id)
        return places.move(draft, agent_id, 0)


kernel = Kernel(Forest())
kernel.register_agent("ann")
assert kernel.decide(kernel.intent("Go", {"to": grid.neighbors(0)[0]}, agent="ann")).admitted
assert places.occupants(kernel.state, 24) == ("ann",)
assert network.neighbors(8)
assert "numpy" not in sys.modules
print("ran")
"""
    assert run(program, b"", tmp_path) == "ran"
