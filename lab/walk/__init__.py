"""Walks: which files of the product a request goes through, measured while it runs."""
