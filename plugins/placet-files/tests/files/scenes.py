"""The scenes of files for the noninterference law (`tests/noninterference/scenes.py`)."""

from collections.abc import Mapping
from functools import partial

from placet_files import Files
from tests.noninterference.drawn import Scene, some

FILES = ["a", "a/b", "c.txt", "../x"]

SCENES: Mapping[str, Scene] = {
    "files": Scene(
        partial(Files, files_max=2, bytes_max=12),
        {
            "files.create_file": partial(
                some, filename=FILES, content=["x", "xy"], overwrite=[..., True]
            ),
            "files.analyze_text": partial(some, path=FILES),
            "files.inspect_zip": partial(some, zip_path=FILES),
        },
    ),
}
