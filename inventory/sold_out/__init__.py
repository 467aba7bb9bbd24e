"""Cheap refusals once an item has sold out, never wrong ones."""
