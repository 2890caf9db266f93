"""Files below one folder: create_file, analyze_text, inspect_zip (seed 004).

payloads > paths > rules > domain; text_statistics and zip_listing read a file's bytes. Nothing here
touches a disk: that is `placet_files.disk.executor`.
"""

from placet_files.domain import Files
from placet_files.payloads import (
    ANALYZE,
    CREATE,
    INSPECT,
    RECEIPTS,
    USAGE,
    WRITES,
    FileRefused,
)

__all__ = ["ANALYZE", "CREATE", "INSPECT", "RECEIPTS", "USAGE", "WRITES", "FileRefused", "Files"]


def __getattr__(name: str) -> str:
    """Return `__version__`, read from the installed metadata when it is asked for."""
    if name != "__version__":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib.metadata import version  # noqa: PLC0415  # 15 ms

    return version("placet-files")
