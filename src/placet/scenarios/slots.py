"""The slots of a process: the processors that it was allotted, never the count of the machine."""

import os
from pathlib import Path
from typing import Final

CGROUPS: Final = Path("/sys/fs/cgroup")


def slots_here(cgroups: Path = CGROUPS) -> int:
    """Return the number of processors that this process was allotted, at least 1.

    It is that of its affinity, or less by the bandwidth of its cgroup (version 2 or 1).
    """
    slots = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return max(1, int(min(slots or 1, _bandwidth(cgroups))))


def _bandwidth(cgroups: Path) -> float:
    """Return the processors that a cgroup grants; infinity without a bound."""
    try:
        if (cgroups / "cpu.max").exists():
            quota, period = (cgroups / "cpu.max").read_text().split()
        else:
            quota = (cgroups / "cpu" / "cpu.cfs_quota_us").read_text().strip()
            period = (cgroups / "cpu" / "cpu.cfs_period_us").read_text()
        return float(quota) / float(period) if quota not in {"max", "-1"} else float("inf")
    except (OSError, ValueError):
        return float("inf")
