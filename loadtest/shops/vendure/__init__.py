"""Vendure, as a shop to be judged."""
