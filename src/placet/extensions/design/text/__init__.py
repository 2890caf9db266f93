"""Plain English sentences to actions."""
