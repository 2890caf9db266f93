"""The past of the worlds that a server shows: their time lines, and questions to a moment.

Only logs are read here, beside their writers. Answers from the domain state come from key
frames in milliseconds; answers from the ledger (views, explanations, forks) need a replay.
"""
