"""Agents run by a policy: calls, supervision, and cancellation on a stale read set."""
