"""Admission of batches: overload control, the structure stage, and the orchestrator's queue."""
