"""Plug-ins by the entry points of installed distributions: domains, commands, routes, sentences."""
