"""Concurrency around the kernel: actors, each with one bounded mailbox and one owner.

    orchestrator > committer > publisher > executor > agent

Rules: other code calls an actor only through its client methods; its messages are declared in its
file; no await stands between reading and writing state; every task has an owner.
"""
