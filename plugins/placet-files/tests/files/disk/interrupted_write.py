"""Write one file and be killed in the middle of it: run as a program by the tests.

python -m tests.files.disk.interrupted_write STORE ROOT POINT OVERWRITES
"""

import asyncio
import os
import signal
import sys
from typing import TYPE_CHECKING, Any

from placet import Orchestrator, OrchestratorConfig
from placet_files import CREATE, Files
from placet_files.disk import root as file_root
from placet_files.disk.root import FileRoot

if TYPE_CHECKING:
    from collections.abc import Callable

PATH, OLD, NEW = "d/a.txt", "old words", "new words"
POINTS = ("begun", "made", "placed", "written")
"""Before anything is done; before the file is put in its place; after; before its outcome."""


def config_of(store: str) -> OrchestratorConfig:
    return OrchestratorConfig(store=store, log_level="critical")


def arm(point: str) -> None:
    """Kill the process at a point of the next write."""
    match point:
        case "begun":
            _kill_around(FileRoot, "create", is_after=False)
        case "made":
            _kill_around(file_root, "_write", is_after=True)
        case "placed":
            _kill_around(os, "link", is_after=True)
            _kill_around(os, "rename", is_after=True)
        case "written":
            _kill_around(FileRoot, "create", is_after=True)
        case _:
            raise ValueError(f"point must be one of {POINTS}, got {point!r}")


def _kill_around(where: Any, name: str, *, is_after: bool) -> None:
    call: Callable[..., object] = getattr(where, name)

    def killing(*given: object, **named: object) -> None:
        if is_after:
            call(*given, **named)
        os.kill(os.getpid(), signal.SIGKILL)

    setattr(where, name, killing)


async def write(store: str, root: str, point: str, *, overwrites: bool) -> None:
    async with Orchestrator(Files(root), config_of(store)) as world:
        ann = await world.register_agent("ann")
        if overwrites:
            await ann.submit([ann.intent(CREATE, filename=PATH, content=OLD)])
            await world.wait_effects()
            await ann.refresh_view()
        arm(point)
        await ann.submit([ann.intent(CREATE, filename=PATH, content=NEW, overwrite=overwrites)])
        await world.wait_effects()


if __name__ == "__main__":
    store, root, point, overwrites = sys.argv[1:]
    asyncio.run(write(store, root, point, overwrites=overwrites == "True"))
