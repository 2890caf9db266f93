"""The parts of the `Orchestrator` class, by theme."""
