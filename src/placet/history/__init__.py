"""Readers of a log: the world at a position, its verification, its explanations."""
