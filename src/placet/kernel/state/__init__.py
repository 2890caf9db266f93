"""The state tree, the draft through which rules change it, and its transactions."""
