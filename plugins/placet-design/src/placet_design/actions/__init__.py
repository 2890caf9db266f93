"""Actions and plans: the protocol of seed 000, normalization, batches, answers."""
