"""The built-in domains: each folder is one pure plug-in of the kernel and imports no other.

A domain declares kinds of intents (`payloads.py`), the rules that apply them (`rules.py`), and
who may see what (`views.py`). It implements the port in `kernel/domain.py`.
"""
