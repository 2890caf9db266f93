"""Faults for authors of domains and agents: a scripted model server."""
