"""The values that a log does not hold: their store, their way to the tools, and their erasure."""
