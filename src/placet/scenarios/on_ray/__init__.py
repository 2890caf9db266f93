"""Ray for runs and sweeps: the files that travel, the check of a node's code, the connection.

    modules < staging < session; code_check travels to the nodes by value

No file system is shared, and Ray's own retries are off. Needs the extra `ray`.
"""
