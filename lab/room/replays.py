"""The recorded rushes: each as a document that the player reads."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

from inventory.models import Item
from lab.room.duels import SHIPPED
from lab.strategies.choice import chosen
from loadtest.replay import Mark, compose, dump, first_beyond, read_served
from loadtest.steps import RunFiles
from loadtest.ui.runs import Runs
from shop.catalogue.models import Sale

MOST = 10_000
"""Calls of a recorded rush: those of the largest one that the room starts."""

NUMBER = re.compile(r"\d{1,9}")
DOCUMENT = "replay.json"
SHIPPED_NUMBER = 0


class Replays:
    """The last recorded rushes.

    Args:
        folder: for their documents.
    """

    def __init__(self, folder: Path) -> None:
        self._runs = Runs(folder)

    def keep(self, files: Path, sale: int, title: str) -> int:
        """Compose a document of a rush's files, and keep it; return its number.

        Args:
            files: folder of the histories and of what the web processes recorded.
            sale: id of the sale.
            title: what the player shows, after the sale and its strategy.

        Raises:
            ValueError: a file cannot be understood.
            Error: the database does not answer.
        """
        title = f"{sale} · {chosen(sale)} · {title}"
        document = replay_of(files, sale, title)
        run = self._runs.new()
        run.describe({"title": title})
        (run.path / DOCUMENT).write_text(dump(document), encoding="utf-8")
        return run.number

    def find(self, path: str) -> bytes | None:
        """Return the document of a number, if it is still there."""
        if path == str(SHIPPED_NUMBER):
            return dump(_shipped()).encode()
        run = self._runs.find(int(path)) if NUMBER.fullmatch(path) else None
        document = run.path / DOCUMENT if run else None
        return document.read_bytes() if document and document.exists() else None

    def list(self) -> dict[str, Any]:
        """Return the numbers and titles of all, the newest first; the shipped one is the last."""
        found = [
            {"number": run.number, "title": run.description()["title"]}
            for run in self._runs
            if (run.path / DOCUMENT).exists()
        ]
        return {"replays": [*found[::-1], {"number": SHIPPED_NUMBER, "title": _shipped()["title"]}]}


def _shipped() -> dict[str, Any]:
    """Return the shipped duel's first side: a rush that is oversold."""
    duel: dict[str, Any] = json.loads(SHIPPED.read_bytes())
    return dict(duel["sides"][0]["replay"])


def replay_of(files: Path, sale: int, title: str) -> dict[str, Any]:
    """Compose the document of a recorded rush.

    Args:
        files: folder of the histories and of what the web processes recorded.
        sale: id of the sale.
        title: what the player shows.

    Raises:
        ValueError: a file cannot be understood.
        Error: the database does not answer.
    """
    recorded = RunFiles(files)
    histories = recorded.histories()
    item = Sale.objects.select_related("item").get(pk=sale).item
    return compose(
        histories,
        title=title,
        marks=_oversell(item, histories),
        served=read_served(recorded.served()),
        units=item.total,
        most=MOST,
    )


def _oversell(item: Item, histories: list[Path]) -> list[Mark]:
    """Mark the answer that promised more than there was, if the books say that it is oversold."""
    if item.reserved <= item.total:
        return []
    call = first_beyond(histories, Counter({str(item.pk): item.total}))
    if call is None:
        return []
    text = (
        f"item {item.pk}: {item.reserved} sold or held of {item.total}, "
        f"{item.reserved - item.total} too many"
    )
    return [Mark("P1", "no oversell", call.end, text, call.call)]
