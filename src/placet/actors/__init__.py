"""Concurrency around the kernel: actors, each with one bounded mailbox and one owner.

    orchestrator > committer > publisher > executor > agent

Rules of the room: an actor is spoken to through its client methods; its messages are declared in
its file; no await stands between reading and writing state; no task is detached.
"""
