"""Counters and distributions of one world, in plain integers."""
