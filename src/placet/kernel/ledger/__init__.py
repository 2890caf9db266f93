"""The ledger: agents, dedup windows, quotas, the schedule and the outbox, kept beside the state."""
