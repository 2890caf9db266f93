"""Work on a log: replay, verify, explain, snapshot."""
