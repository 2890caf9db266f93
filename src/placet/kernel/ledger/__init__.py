"""What a world keeps beside its state: agents, dedup windows, quotas, the schedule, the outbox."""
