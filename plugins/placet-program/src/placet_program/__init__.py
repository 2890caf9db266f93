"""Programs as typed graphs (seed 001): a planner edits, the kernel decides.

Imports: operations > payloads > functions > diagnostics > mutations (edit_buffer) > history;
execution/: arithmetic > simulation, python_source > compiler; views; rules bind all of them to the
seven kinds.
"""

from placet_program.domain import Program

__all__ = ["Program"]


def __getattr__(name: str) -> str:
    """Return `__version__`, read from the installed metadata when it is asked for."""
    if name != "__version__":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib.metadata import version  # noqa: PLC0415  # 15 ms

    return version("placet-program")
