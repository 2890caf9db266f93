"""A world's output for operators: Prometheus metrics and structured log lines."""
