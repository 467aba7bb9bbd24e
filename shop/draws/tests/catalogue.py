"""A draw for tests, and what can be done with it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django.db.models.functions import Now

from shop.catalogue.models import Sale
from shop.catalogue.sale_cache import sale_cache
from shop.conftest import Buyer
from shop.draws.api import public_file
from shop.draws.drawing import open_draw
from shop.draws.models import Draw


def a_draw(stock: int = 2, **different: Any) -> Draw:
    """Open a draw."""
    return open_draw(**{"stock": stock, "price": 99_900, "limit": 1, **different})


def end(draw: Draw) -> None:
    """End the window now, and let processes read that."""
    Sale.objects.filter(pk=draw.pk).update(ends_at=Now())
    sale_cache.cache_clear()


def buyers(number: int) -> list[Buyer]:
    return [Buyer(f"entrant-{position}") for position in range(number)]


def enter_all(draw: Draw, entrants: list[Buyer]) -> None:
    for entrant in entrants:
        assert entrant.post(f"sales/{draw.pk}/entries").status_code == 201


def save_public_file(draw: Draw, folder: Path) -> Path:
    """Write the public file of a draw as it is now."""
    path = folder / "draw.jsonl"
    path.write_text("".join(public_file(Draw.objects.select_related("sale").get(pk=draw.pk))))
    return path
