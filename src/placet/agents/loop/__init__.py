"""One turn: ask the planner, parse, preview, approve, submit, repair, record."""
