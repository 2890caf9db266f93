"""Seed 000's classes over a design world without an event loop."""
