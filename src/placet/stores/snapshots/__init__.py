"""Snapshots beside a log; recovery and compaction, which use them."""
