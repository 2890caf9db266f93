"""Effects: one executor for each kind, attempts and retries, settlement."""
