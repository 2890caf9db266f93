"""Visibility policies: which entities and fields an agent may see. `policy.py` composes them."""
