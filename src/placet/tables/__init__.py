"""Arrow tables of logs and of runs: their schemas, the files that hold them, and the collectors.

It stands below the scenarios, whose runs are collected, and above the runtime, whose logs it reads.
pyarrow (extra `lab`) is imported where a table is made, never with the package.
"""
