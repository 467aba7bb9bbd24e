"""A mix of buyers at any shop that has an adapter: what is found, and what a right shop holds."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from loadtest import adapter_sale
from loadtest.address import RunImpossible
from loadtest.checker import Verdict
from loadtest.checker.evidence import ALLOWED
from loadtest.files import RunFiles
from loadtest.history import OK, operations
from loadtest.mix import buyers as mix_buyers
from loadtest.mix import sale as mix_sale
from loadtest.mix.plan import MixPlan
from loadtest.mix.sale import MixSale
from loadtest.run import Faults, Load, Show, run
from loadtest.shop import Books
from loadtest.shops.unguarded import (
    Adapter,
    AtCart,
    AtCheckout,
    Expiring,
    Fault,
    Keyed,
    Reserve,
    Server,
)
from loadtest.tests.trivial_server import OVERLAP, ROUND_TRIP, in_thread

USERS = 30


@pytest.fixture(autouse=True)
def is_quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(adapter_sale, "LOOK", 0.05)
    monkeypatch.setattr(mix_buyers, "THINKS", 0.2)
    monkeypatch.setattr(mix_sale, "EXPIRES_WITHIN", 0.5)
    monkeypatch.setattr(mix_sale, "EXPIRE_EVERY", 0.1)
    monkeypatch.setitem(ALLOWED, "expiry_us", 100_000)


class Threads(Load):
    """Users in threads, as Locust has them in greenlets."""

    def __init__(self, sale: MixSale) -> None:
        self._sale = sale
        self._threads: list[Thread] = []

    @contextmanager
    def acting(self) -> Iterator[None]:
        users = self._sale.users("", lambda _: None)
        self._threads = [Thread(target=users.live, args=(None,)) for _ in range(USERS)]
        for thread in self._threads:
            thread.start()
        users.everyone_is_here.set()
        yield

    def running(self) -> bool:
        return any(thread.is_alive() for thread in self._threads)

    def wait(self) -> None:
        for thread in self._threads:
            thread.join(0.02)


def played(shop: Adapter, url: str, folder: Path, **more: Any) -> tuple[Verdict, MixSale]:
    """Let 30 users come to a sale of 8 units, and judge it."""
    size = {"stock": 8, "buyers": USERS, "rounds": 2} | more
    plan = MixPlan(adapter="unguarded", host=url, **size)
    sale = MixSale(shop, plan, RunFiles(folder), Show())
    return run(plan, sale, Threads(sale), Faults(), Show()), sale


def found(verdict: Verdict) -> set[str]:
    return {each.id for each in verdict.broken}


def told(verdict: Verdict) -> str:
    return "; ".join(f"{each.id}: {each.detail}" for each in verdict.properties)


RIGHT: list[tuple[type[Adapter], dict[str, Any], set[str]]] = [
    (Adapter, {}, {"cart", "order", "voucher", "cancel"}),
    (Keyed, {}, {"cart", "order"}),
    (Expiring, {"hold": 1.5}, {"cart", "order", "cancel"}),
    (AtCart, {"reserve": Reserve.CART}, {"cart", "order", "cancel"}),
    (AtCheckout, {"reserve": Reserve.CHECKOUT}, {"cart", "prepare", "order", "cancel"}),
]


@pytest.mark.parametrize(("adapter", "shop", "ops"), RIGHT)
def test_mix_at_a_right_shop_plays_all_levels_and_holds(
    adapter: type[Adapter], shop: dict[str, Any], ops: set[str], tmp_path: Path
) -> None:
    with in_thread(Server(0, tmp_path, guarded=True, **shop)) as server:
        verdict, sale = played(adapter(server.url), server.url, tmp_path / "run", stock=30)
    assert verdict.verdict == "pass", told(verdict)
    calls = list(operations(*sale.files.histories()))
    assert ops <= {each.op for each in calls if each.outcome == OK}
    assert sale.problems == {}
    assert sale.plan.came == 2 * USERS


PLENTY = {"stock": 90}
ALL_CANCEL = {"weights": {"buy": 0, "cancel": 1, "use_voucher": 0, "add_while_paying": 0}}
WRONG: list[tuple[str, type[Adapter], dict[str, Any], dict[str, Any], str]] = [
    ("check-then-act", Adapter, {"guarded": False}, {}, "P1"),
    # When all is cancelled, the books know nothing of it any more.
    ("too many", Adapter, {"fault": Fault.SELLS_TOO_MANY}, {"stock": 1} | ALL_CANCEL, "P1"),
    ("loses orders", Adapter, {"fault": Fault.LOSES_ORDERS}, PLENTY, "P3"),
    ("gives back twice", Adapter, {"fault": Fault.CANCELS_TWICE}, PLENTY, "P2"),
    ("refuses some", Adapter, {"fault": Fault.REFUSES_SOME}, PLENTY, "P7"),
    ("forgets keys", Keyed, {"fault": Fault.KEYS_AFTER_SALE}, PLENTY, "P5"),
    ("never expires", Expiring, {"fault": Fault.NEVER_EXPIRES, "hold": 0.5}, {}, "P16"),
]
EVERYDAY = {"check-then-act", "gives back twice", "forgets keys"}
"""The others are long."""


@pytest.mark.parametrize(
    ("adapter", "shop", "size", "broken"),
    [
        pytest.param(*case, id=name, marks=[] if name in EVERYDAY else [pytest.mark.long])
        for name, *case in WRONG
    ],
)
def test_mix_finds_what_is_broken(
    adapter: type[Adapter],
    shop: dict[str, Any],
    size: dict[str, Any],
    broken: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if not shop.get("guarded", True):
        monkeypatch.setattr(ROUND_TRIP, OVERLAP)
    with in_thread(Server(0, tmp_path, **{"guarded": True} | shop)) as server:
        verdict, _ = played(adapter(server.url), server.url, tmp_path / "run", **size)
    assert broken in found(verdict), told(verdict)


class ReadsOtherIds(Adapter):
    def books(self, sale: str) -> Books:
        books = super().books(sale)
        return replace(books, orders={f"row {order}": n for order, n in books.orders.items()})


def test_mix_cannot_judge_books_that_name_other_orders(tmp_path: Path) -> None:
    with (
        in_thread(Server(0, tmp_path, guarded=True)) as server,
        pytest.raises(RunImpossible, match="does the adapter read the same ids"),
    ):
        played(ReadsOtherIds(server.url), server.url, tmp_path / "run")


class MakesTheSameBuyers(Adapter):
    def buyers(self, sale: str, count: int) -> list[str]:
        return [f"{sale}/{number}" for number in range(count)]


@pytest.mark.parametrize("adapter", [Adapter, MakesTheSameBuyers])
def test_users_without_end_ask_for_other_buyers(adapter: type[Adapter], tmp_path: Path) -> None:
    with in_thread(Server(0, tmp_path, guarded=True)) as server:
        plan = MixPlan(adapter="unguarded", host=server.url, stock=1, buyers=2, rounds=0)
        sale = MixSale(adapter(server.url), plan, RunFiles(tmp_path / "run"), Show())
        sale.open(plan)
        numbers = [sale.buyers.next_number(2) for _ in range(2)]
        if adapter is MakesTheSameBuyers:
            with pytest.raises(RunImpossible, match="makes the same buyers again"):
                sale.buyers.next_number(2)
        else:
            numbers += [sale.buyers.next_number(2)]
            assert len({sale.buyers.buyers[number] for number in numbers}) == 3
        sale.close()
