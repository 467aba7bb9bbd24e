"""Medusa, as a shop to be judged."""
