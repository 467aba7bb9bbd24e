"""Lessons in locking: the locks that most people write first, and a simulator that breaks them."""
