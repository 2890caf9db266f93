"""Turning points: continue a run from its ticks with other seeds, and blame batches."""
