"""The store of the guide, installed as a distribution: it passes the contract, and commands use it.

Other tests of a page run its examples; these install its store, as its author would.
"""

import re
import sys
import tomllib
from pathlib import Path

import pytest

from placet.runtime.config import OrchestratorConfig
from placet.runtime.orchestrator import Orchestrator
from placet.stores.url import open_event_log
from placet.testing.contracts import EventLogContract
from tests.cli.command_line import TOWN

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "write_a_store.md"
MODULE, SUITE = re.findall(r"^```python\n(.*?)^```$", GUIDE.read_text(), re.MULTILINE | re.DOTALL)
(TOML,) = re.findall(r"^```toml\n(.*?)^```$", GUIDE.read_text(), re.MULTILINE | re.DOTALL)
ENTRY = tomllib.loads(TOML)["project"]["entry-points"]["placet.stores"]


@pytest.fixture(scope="module", autouse=True)
def installed(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    (folder / "folder_store.py").write_text(MODULE)
    info = folder / "folder_store-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: folder-store\nVersion: 1\n")
    entries = "".join(f"{scheme} = {target}\n" for scheme, target in ENTRY.items())
    (info / "entry_points.txt").write_text(f"[placet.stores]\n{entries}")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(folder))
        patch.setenv("PYTHONPATH", str(folder))
        yield
    sys.modules.pop("folder_store", None)


class TestContract(EventLogContract):
    durability = "full"

    def new_log(self, folder):
        return lambda: open_event_log(f"folder://{folder}/log")

    def lose(self, handle):
        handle._release()


def test_the_suite_of_the_guide_is_this_one():
    names: dict[str, type] = {}
    exec(f"from folder_store import FolderLog\n{SUITE}", names)
    assert issubclass(names["TestFolder"], EventLogContract)


async def test_a_world_continues_from_it(tmp_path):
    config = OrchestratorConfig(store=f"folder://{tmp_path}/world")
    async with Orchestrator(config=config) as world:
        await world.register_agent("ann", position=[0, 0, 0])
        digest, scheme = await world.digest(), world.store.scheme
    async with Orchestrator(config=config) as world:
        assert (await world.digest(), scheme) == (digest, "folder")


def test_commands_write_and_read_it(placet):
    store = f"folder://{placet.folder}/town"
    ran = placet("run", *TOWN, "--store", store, "--json")
    assert ran.code == 0, ran.err
    again = placet("run", *TOWN, "--store", store)
    assert again.code == 1
    assert "already has a world" in again.err
    assert placet("log", store, "--json").json()[-1]["record"] == open_event_log(store).count() - 1
    verified = placet("verify", store, "--json")
    assert (verified.code, verified.json()["ok"]) == (0, True)
    assert placet("compact", store, "--keep", "1").code == 0
    assert placet("replay", store, "--json").code == 0
