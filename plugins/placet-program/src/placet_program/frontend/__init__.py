"""The HTTP routes of the domain `program` (seed 001)."""
