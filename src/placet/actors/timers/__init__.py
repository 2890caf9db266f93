"""Timers on simulated time, and the tasks that simulated time waits for."""
