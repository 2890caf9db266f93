"""Resistance and propulsion formulae of the phases, by their published sources."""
