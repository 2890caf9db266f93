"""Built-in domains. Each folder is a pure plug-in of the kernel and imports no other domain.

A domain declares kinds of intents (`payloads.py`), the rules that apply them (`rules.py`), and
the visibility of entities (`views.py`). It implements the port in `kernel/plugin/domain.py`.
"""
