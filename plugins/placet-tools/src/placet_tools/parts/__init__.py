"""Arguments that a log must be able to forget: their marks, their forms, and their erasure."""
