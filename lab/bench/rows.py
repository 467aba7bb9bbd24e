"""The benchmark's rows: one per way of answering the same request."""

from __future__ import annotations

from dataclasses import dataclass

from lab.strategies import CLASSES

ENOUGH_STOCK = 10_000_000
"""Units: more than any row can sell, so that every request is a purchase."""


PEERS = {
    "peer_django": ("gunicorn", "-c", "gunicorn.conf.py", "lab.bench.peers.django_shop"),
    "peer_fastapi": ("lab.bench.peers.fastapi_shop",),
}
"""Commands of the plain shops after `python -m`, by the names of their rows."""


BARE = "lab.bench.bare"
"""Settings of a view that does nothing, under plain gunicorn."""


@dataclass(frozen=True, slots=True)
class Server:
    """What answers a row's requests.

    Attributes:
        settings: Django's settings module.
        peer: name of a plain shop.
    """

    settings: str = "lab.settings"
    peer: str = ""

    def __str__(self) -> str:
        return self.peer or self.settings


def peer(name: str) -> Server:
    """Return the server of a plain shop."""
    return Server("lab.bench.peers.django_settings", name)


@dataclass(frozen=True, slots=True)
class Row:
    """A row of the benchmark.

    Attributes:
        name: in the table.
        server: what answers.
        strategy: of the sales; empty for a peer, which has one; None without a sale.
        stock: units of the sale.
        expected: status of a correct answer.
        concurrency: connections.
    """

    name: str
    concurrency: int
    server: Server = Server()
    strategy: str | None = None
    stock: int = ENOUGH_STOCK
    expected: int = 201

    def __str__(self) -> str:
        return f"{self.name}, {self.concurrency} connections"


def rows(concurrency: int, crowd: int) -> list[Row]:
    """Return all rows.

    Args:
        concurrency: connections of most rows.
        crowd: connections of the rush rows; 0 leaves them out.
    """
    bare, api = Server(BARE), Server("lab.bench.api")
    found = [
        Row("noop", concurrency, bare),
        Row("noop_api", concurrency, api),
        Row("sold_out", concurrency, strategy="combining", stock=0, expected=409),
        *(Row(name, concurrency, strategy=name) for name in CLASSES),
        *(Row(name, concurrency, peer(name), strategy="") for name in PEERS),
    ]
    if crowd:
        found += [
            Row("noop", crowd, bare),
            Row("combining", crowd, strategy="combining"),
        ]
    return found


RATIOS = (
    ("combining", "noop"),
    ("combining", "guard"),
    ("combining", "redis_lock"),
    ("combining", "peer_django"),
    ("combining", "peer_fastapi"),
    ("sold_out", "noop_api"),
)
"""Pairs of rows whose rates are compared."""
