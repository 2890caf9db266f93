"""A world's output for operators: metrics and log lines."""
