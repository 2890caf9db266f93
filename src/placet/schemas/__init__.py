"""Immutable values that cross layers: batches, verdicts, records, views.

Every package imports them, and they import no other package.

Rules: values only. No clock, no I/O, no async, no randomness, no logging.
"""
