"""The last question of a run: when all is at rest, keys of all kinds are asked for once more.

Who was promised an order must get that one again, also when its sale is over, and who was refused
must not turn out to have had one all along. The shop's answers go into a history like any other's.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from random import Random
from zlib import crc32

from loadtest.client import Connection
from loadtest.files import RunFiles
from loadtest.full_shop import FullShop
from loadtest.history import AGAIN, OK, Operation, Recorder, combine, operations
from loadtest.purchases import Cart, Line, Purchase, Sale
from loadtest.sale_roles import MAIN
from loadtest.shopper import Crowd, Shopper

EACH = 100
"""Keys of each kind: promised, refused, unknown, and carts."""

AT_ONCE = 8

BYTES = 8_000_000
"""Of a history that is longer, only every n-th key is considered, which bounds the memory."""


@dataclass(slots=True)
class Asked:
    """What was asked for under one key: the lines of a cart, or a single purchase."""

    buyer: str
    attempts: int = 0
    is_cart: bool = False
    lines: dict[str, Line] = field(default_factory=dict)
    outcomes: set[str] = field(default_factory=set)

    def add(self, call: Operation) -> None:
        """Take note of a call."""
        self.attempts = max(self.attempts, call.attempt)
        self.outcomes.add(call.outcome)
        if call.key not in self.lines or call.outcome == OK:
            sale = Sale(call.sale or "", call.item, 0, 0.0)
            self.lines[call.key] = Line(sale, call.quantity, call.key)

    @property
    def kind(self) -> str:
        """Its outcome, but for a cart."""
        return "cart" if self.is_cart else combine(self.outcomes)


def ask_again(files: RunFiles, shop: FullShop, seed: int, tokens: Mapping[str, str]) -> None:
    """Ask for a sample of the keys of a run once more, each in its buyer's name.

    Args:
        files: of the run; a history is added.
        shop: that is asked.
        seed: repeats the choice.
        tokens: of the run's buyers, as far as they were kept.
    """
    chosen = [
        (key, asked) for key, asked in sample(files.histories(), seed) if asked.buyer in tokens
    ]
    recorder = Recorder(files.again)
    ask = partial(_ask, tokens=tokens, shop=shop, recorder=recorder)
    try:
        with ThreadPoolExecutor(AT_ONCE) as pool:
            list(pool.map(ask, *zip(*chosen, strict=True)))
    finally:
        recorder.close()


def sample(histories: Sequence[Path], seed: int) -> list[tuple[str, Asked]]:
    """Choose keys of every kind; a cart's key stands for all its lines."""
    size = sum(path.stat().st_size for path in histories)
    kinds: dict[str, list[tuple[str, Asked]]] = defaultdict(list)
    for key, asked in _keys(operations(*histories), 1 + size // BYTES).items():
        kinds[asked.kind].append((key, asked))
    random = Random(f"{seed}/again")
    return [
        pair
        for kind in sorted(kinds)
        for pair in random.sample(sorted(kinds[kind], key=_first), min(EACH, len(kinds[kind])))
    ]


def _first(pair: tuple[str, Asked]) -> str:
    return pair[0]


def _keys(calls: Iterable[Operation], every: int) -> dict[str, Asked]:
    found: dict[str, Asked] = {}
    for call in calls:
        key = call.cart or call.key
        if call.op == "order" and key and crc32(key.encode()) % every == 0:
            asked = found.setdefault(key, Asked(call.buyer, is_cart=bool(call.cart)))
            asked.add(call)
    return found


def _ask(
    key: str,
    asked: Asked,
    *,
    tokens: Mapping[str, str],
    shop: FullShop,
    recorder: Recorder,
) -> None:
    lines = sorted(asked.lines.values(), key=lambda line: int(line.sale.id))
    crowd = Crowd(shop, {MAIN: lines[0].sale}, recorder, tokens.__getitem__)
    shopper = Shopper(crowd, asked.buyer, Connection(*shop.address), client=f"{AGAIN}{key}")
    shopper.asked(key, asked.attempts)
    try:
        if asked.is_cart:
            shopper.check_out(Cart(key, tuple(lines)))
        else:
            shopper.order(Purchase(key, lines[0].quantity, lines[0].sale))
    finally:
        shopper.leave()
