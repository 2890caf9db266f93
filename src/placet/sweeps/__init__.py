"""Sweeps: many runs of scenarios, by any `concurrent.futures` executor, in a folder.

    plan (which runs) > study (which are finished) > loop (executor, deaths) > worker (a row)

A run is finished when its whole row is in the study's folder: a line of JSON, written by its worker
where the worker reaches the folder, else by the sweep's process. So a sweep that is killed anywhere
and started again repeats no finished run.
"""
