"""What a command shows on a terminal of some width, checked for cut texts."""

from __future__ import annotations

import io

from rich.cells import cell_len
from rich.console import Console, RenderableType

WIDTHS = (80, 120)


def assert_whole(text: str, width: int, *words: str) -> None:
    """Assert that no line is too long, no cell is cut, and these texts' words are all there."""
    long = [line for line in text.splitlines() if cell_len(line) > width]
    there = text.split()
    cut = [word for word in there if word.endswith("…") and word != "…"]  # SQL has one of its own
    missing = [word for each in words for word in each.split() if word not in there]
    assert (long, cut, missing) == ([], [], []), text


def screen(width: int, *shown: RenderableType) -> str:
    """Return what a terminal of this width shows."""
    console = Console(file=io.StringIO(), width=width)
    console.print(*shown, sep="\n")
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()
