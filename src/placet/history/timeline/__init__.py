"""The states that a log went through, by position, fast enough to look at them one after another.

Two passes over a log would make each look cost the whole log; so one light pass, which neither
checks the chain nor keeps the ledger, leaves key frames of the domain state. The state at a
position is the nearest frame before it and the changes since.

    fold.py: the light fold. frames.py: key frames and their folder. index.py: the pass.
    timeline.py: positions, moments, steps and searches. moments.py: these as JSON.
    ledgers.py: snapshots along a log, for questions that need a replay.
"""
