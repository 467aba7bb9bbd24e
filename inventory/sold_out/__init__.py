"""Refuse cheaply once an item has sold out, without ever refusing wrongly."""
