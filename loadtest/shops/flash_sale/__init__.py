"""This project's own shop: its paths, its statuses, its fields, and nothing else of the proof."""

from __future__ import annotations

from loadtest.shop import Level

LEVELS = frozenset(Level) - {Level.VOUCHERS}
"""What the shop can be judged on."""
