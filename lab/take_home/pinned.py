"""Pinned requirements without some packages, and without what only those need."""

from __future__ import annotations

import re
from collections.abc import Collection

ENTRY = re.compile(r"(?m)^(?=[a-z0-9])")
VIA = re.compile(r"(?m)^ +# (?:via )? *(\S.*)$")


def without(pinned: str, gone: Collection[str]) -> str:
    """Return a file of `uv pip compile` without packages and what came with only them.

    Args:
        pinned: each entry is followed by comments that say what it came with.
        gone: names of packages.
    """
    head, *entries = ENTRY.split(pinned)
    left = {_name(entry): entry for entry in entries if entry.strip()}
    removed = set(gone)
    while True:
        orphans = {name for name, entry in left.items() if removed.issuperset(_reasons(entry))}
        if not (removed | orphans) & left.keys():
            break
        left = {name: entry for name, entry in left.items() if name not in removed | orphans}
        removed |= orphans
    return head + "".join(
        "".join(line for line in entry.splitlines(True) if _named(line) not in removed)
        for entry in left.values()
    )


def _name(entry: str) -> str:
    return re.split(r"[=\[ ]", entry, maxsplit=1)[0]


def _reasons(entry: str) -> list[str]:
    named = [_named(line) for line in entry.splitlines()]
    # A constraint is no reason to install something.
    return [name for name in named if name and not name.startswith("-c")] or ["itself"]


def _named(line: str) -> str:
    found = VIA.match(line)
    return found[1] if found and found[1] != "via" else ""
