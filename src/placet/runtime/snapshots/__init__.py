"""Snapshots beside a log, the recovery and the compaction that stand on them."""
