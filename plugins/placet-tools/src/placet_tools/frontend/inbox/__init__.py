"""The requests for approval of a gate that runs, in a terminal."""
