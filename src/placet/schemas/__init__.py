"""Frozen nouns: what travels between the rooms. Everyone reads them; they read no one.

Rules of the room: values only. No clock, no I/O, no async, no randomness, no logging.
"""
