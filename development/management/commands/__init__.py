"""Commands of a development machine."""
