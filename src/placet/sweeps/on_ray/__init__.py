"""Sweeps on Ray: a `concurrent.futures` executor over Ray's streaming tasks.

    staging (what travels) > session (opens Ray) > executor (groups of calls) > group (on a worker)

Ray has no such loop: its `multiprocessing.Pool` never replaces a dead worker. So the
sweep keeps its loop, and Ray's retries are off. No file system is shared: the driver alone writes
the study, and a run is finished when its whole row is there. Needs the extra `ray`.
"""
