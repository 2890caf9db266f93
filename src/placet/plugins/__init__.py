"""Plug-ins, found by the entry points of installed distributions."""
