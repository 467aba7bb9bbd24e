"""Exercises: mend a lesson's lock yourself, and let the simulator search for what breaks it."""
