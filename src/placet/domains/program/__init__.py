"""Programs as typed graphs behind the gate (seed 001): a planner edits, the kernel decides.

operations > vocabulary > functions > diagnostics > mutations (workbench) > history
arithmetic > simulation;  source > compiling;  views;  rules bind them to the seven kinds
"""

from placet.domains.program.domain import Program

__all__ = ["Program"]
