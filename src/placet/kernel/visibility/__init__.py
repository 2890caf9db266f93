"""Policies of sight: who may see what, composed of small ones, each a line of JSON."""
