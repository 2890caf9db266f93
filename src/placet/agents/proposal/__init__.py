"""What a planner is given and what it may answer: context, tools, plan, contract."""
