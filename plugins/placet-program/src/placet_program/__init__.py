"""Programs as typed graphs (seed 001): a planner edits, the kernel decides.

Imports: operations > payloads > functions > diagnostics > mutations (edit_buffer) > history;
execution/: arithmetic > simulation, python_source > compiler; views; rules bind all of them to the
seven kinds.
"""

from placet_program.domain import Program

__all__ = ["Program"]
