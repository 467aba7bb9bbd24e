"""The properties as a table: `python -m loadtest.checker.tables PAGE…` rewrites it in documents."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from loadtest.checker.properties import PROPERTIES

BEGIN, END = "<!-- properties -->\n", "<!-- /properties -->\n"


def markdown() -> str:
    """Return the table of all properties."""
    rows = [
        (judged.id, judged.name, judged.asks, judged.fails, judged.level.value)
        for judged in PROPERTIES.values()
    ]
    head = ("", "name", "what it asks", "what it catches", "level")
    return "".join(f"| {' | '.join(row)} |\n" for row in (head, ("---",) * len(head), *rows))


def rewrite(page: str) -> str:
    """Return a page with its table brought up to date. Raises `ValueError` if it has none."""
    if BEGIN not in page or END not in page:
        raise ValueError(f"no {BEGIN.strip()} … {END.strip()}")
    return re.sub(f"{BEGIN}.*?{END}", lambda _: BEGIN + markdown() + END, page, flags=re.DOTALL)


if __name__ == "__main__":
    for path in map(Path, sys.argv[1:]):
        path.write_text(rewrite(path.read_text(encoding="utf-8")), encoding="utf-8")
