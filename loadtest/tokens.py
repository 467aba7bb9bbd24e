"""The buyers' tokens that a load-generating process leaves, for questions after the run."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

MOST = 50_000
"""Buyers that a process keeps the tokens of: the first ones, a few megabytes."""

_SUFFIX = ".tokens"


def leave_tokens(history: Path, tokens: Mapping[str, str]) -> None:
    """Write tokens by buyer beside a history, for this user only."""
    path = history.with_suffix(_SUFFIX)
    path.touch(mode=0o600)
    path.write_text(json.dumps(tokens))


def take_tokens(folder: Path) -> dict[str, str]:
    """Read the tokens of all processes of a run, and delete the files."""
    found: dict[str, str] = {}
    for path in sorted(folder.glob(f"*{_SUFFIX}")):
        try:
            found.update(json.loads(path.read_text()))
        except ValueError:
            continue  # a process that was killed while it wrote
        finally:
            path.unlink()
    return found
