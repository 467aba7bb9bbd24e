"""Lessons in locking: every lock that people write first, and the simulator that breaks it."""
