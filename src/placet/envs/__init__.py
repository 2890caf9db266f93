"""Worlds as environments for reinforcement learning (extra `gym`)."""
