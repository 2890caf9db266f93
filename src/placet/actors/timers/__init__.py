"""Timers on simulated time, and the tasks that time waits for."""
