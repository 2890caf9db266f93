"""Guests at the kernel floor: each folder is one domain, pure, and knows no other.

A domain declares kinds of intents (`vocabulary.py`), the rules that apply them (`rules.py`), and
who may see what (`views.py`). It enters by the port in `kernel/domain.py`.
"""
