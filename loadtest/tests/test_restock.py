"""An empty sale is restocked, and the history tells what is known of it."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from loadtest.history import INFO, OK, Operation, operations
from loadtest.shops.flash_sale.demo import DemoShop, ShopRefused
from loadtest.steps import Restocks, restock


class Shop(DemoShop):
    """A shop that has sold everything, and adds units, but may lose the answer."""

    def __init__(self, *, loses: bool) -> None:
        super().__init__(("127.0.0.1", 1))
        self.available = 0
        self.restocked = threading.Event()
        self._loses = loses

    def figures(self, sale: str) -> dict[str, Any]:
        return {"item": 7}

    def restock(self, sale: str, units: int) -> None:
        self.available += units
        self.restocked.set()
        if self._loses:
            raise ShopRefused("no answer")


def restocked(shop: Shop, folder: Path) -> Operation:
    """The only restock of an empty sale."""
    with Restocks(shop, "5", 3, lambda: shop.available, folder) as restocks:
        assert shop.restocked.wait(30)
    assert shop.available == 3
    [told] = operations(restocks.path)
    assert restocks.times == (told.outcome == OK)
    return told


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(restock, "LOOK", 0.01)
    monkeypatch.setattr(restock, "EMPTY", 0.05)


def test_an_empty_sale_is_restocked_and_the_history_tells(tmp_path: Path) -> None:
    told = restocked(Shop(loses=False), tmp_path)
    assert (told.op, told.outcome, told.quantity) == ("restock", OK, 3)
    assert (told.sale, told.item) == ("5", "7")


def test_a_restock_without_an_answer_may_have_been_made(tmp_path: Path) -> None:
    assert restocked(Shop(loses=True), tmp_path).outcome == INFO
