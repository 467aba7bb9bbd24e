"""The mixes of buyers that the room offers."""

from __future__ import annotations

from loadtest.roles import roles_for
from loadtest.scenarios import MIXES

MIX_NAMES = tuple(name for name in MIXES if len(roles_for(name)) == 1)
"""Mixes that need no further sales."""
