"""The past of the worlds that a server shows: their time lines, and what is asked of a moment.

Only logs are read here, beside their writers. What needs the domain state alone comes from key
frames in milliseconds; what needs the ledger (views, explanations, forks) from a replay.
"""
