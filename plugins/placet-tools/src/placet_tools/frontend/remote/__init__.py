"""A gate of another process: the server decides and records, workers run their own functions."""
