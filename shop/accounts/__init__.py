"""Buyers' accounts and API tokens."""
