"""A planner's input and output: context, tools, plan, contract."""
