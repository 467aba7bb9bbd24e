"""What the benchmark buys from: the shop, or a plain shop on the same servers."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import psutil
from django.db import connection

from development.embedded import ServerUrls
from development.leftovers import private_folder
from development.processes import SHOP
from inventory.audit import audit
from lab.bench.peers import common
from lab.bench.rows import BARE, PEERS, Row, Server
from lab.demo.data import create_synthetic_buyers
from lab.stack.stack import Stack
from lab.strategies.choice import open_sale
from shop.accounts.models import User
from shop.catalogue.models import Sale
from shop.orders.models import OrderLine
from shop.redis import client

BUYERS = 4000
"""Buyers in turn: so many that a buyer rarely repeats within a batch."""

MODULES = {"peer_fastapi": ("fastapi", "uvicorn", "uvloop", "httptools", "asyncpg")}
"""What a peer needs beyond the shop's own packages."""

PRICE, LIMIT = 99_900, 1_000_000


@dataclass(frozen=True, slots=True)
class Books:
    """What was sold: orders, and units that are sold and still for sale."""

    orders: int
    oversold: int

    def __sub__(self, earlier: Books) -> Books:
        return Books(self.orders - earlier.orders, self.oversold - earlier.oversold)


class Shop:
    """The shop itself.

    Args:
        stack: with a web server.
    """

    def __init__(self, stack: Stack) -> None:
        self.stack = stack
        self.clock = CpuClock(stack)
        self.tokens: Sequence[str] = create_synthetic_buyers(BUYERS)

    def open_sales(self, row: Row) -> list[int]:
        """Return the id of a new sale for a row; none for a row without a sale."""
        if row.strategy is None:
            return []
        sale = open_sale(
            stock=row.stock, price=PRICE, limit=LIMIT, strategy=row.strategy, listed=False
        )
        return [sale.pk]

    def books(self, sales: Sequence[int]) -> Books:
        """Audit these sales."""
        items = Sale.objects.filter(pk__in=sales).values_list("item", flat=True)
        # With unlimited stock, units that were sold without being taken are still for sale.
        over = [
            book.held + book.confirmed + book.available - book.total
            for book in audit(list(items)).items
        ]
        orders = OrderLine.objects.filter(sale__in=sales).count()
        return Books(orders, sum(units for units in over if units > 0))


class Peer:
    """A plain shop, whose tables are in the shop's database.

    Args:
        stack: with its web server, and the key of its tokens in its environment.
    """

    def __init__(self, stack: Stack) -> None:
        self.stack = stack
        self.clock = CpuClock(stack)
        create_synthetic_buyers(BUYERS)
        newest = User.objects.order_by("-pk").values_list("pk", flat=True)[:BUYERS]
        key = stack.extra[common.KEY]
        self.tokens: Sequence[str] = [common.issue(buyer, key) for buyer in newest]

    def open_sales(self, row: Row) -> list[int]:
        """Return the id of a new sale for a row; none for a row without a sale."""
        with connection.cursor() as cursor:
            cursor.execute(
                "INSERT INTO peer_sale (price, stock, available) VALUES (%s, %s, %s) RETURNING id",
                [PRICE, row.stock, row.stock],
            )
            return [sale for (sale,) in cursor.fetchall()]

    def books(self, sales: Sequence[int]) -> Books:
        """Audit these sales, as far as the tables go."""
        with connection.cursor() as cursor:
            cursor.execute(AUDIT, [list(sales)])
            orders, oversold = cursor.fetchone()
        return Books(int(orders), int(oversold))


Target = Shop | Peer
"""A running server, its buyers and its books."""

AUDIT = """
SELECT coalesce(sum(sold.orders), 0),
       coalesce(sum(greatest(sold.units + sale.available - sale.stock, 0)), 0)
FROM peer_sale AS sale CROSS JOIN LATERAL (
    SELECT count(bought.id) AS orders, coalesce(sum(quantity), 0) AS units
    FROM peer_reservation AS reservation
    LEFT JOIN peer_order AS bought ON bought.reservation_id = reservation.id
    WHERE reservation.sale_id = sale.id
) AS sold WHERE sale.id = ANY(%s)
"""


def missing(server: Server) -> list[str]:
    """Return the packages that a peer needs and that are not installed."""
    return [name for name in MODULES.get(server.peer, ()) if find_spec(name) is None]


def start(
    servers: Iterable[Server], urls: ServerUrls, cleanup: ExitStack, tell: Callable[[str], None]
) -> dict[Server, Target]:
    """Start servers; idle ones do not affect the others.

    Args:
        servers: to start, each once.
        urls: PostgreSQL and Redis for all of them.
        cleanup: stops them when it is closed.
        tell: called with progress messages.
    """
    wanted = sorted(set(servers), key=str)
    if any(server.peer for server in wanted):
        cleanup.enter_context(_peer_tables())
    targets: dict[Server, Target] = {}
    for server in wanted:
        tell(f"Starting {server} …")
        extra = {"DJANGO_SETTINGS_MODULE": server.settings}
        if server.settings == BARE:  # not even with the shop's shorter way for calls of the API
            extra["GUNICORN_CMD_ARGS"] = "--worker-class lab.bench.plain.PlainWorker"
        if server.peer:  # a plain shop counts nothing
            extra |= {common.KEY: secrets.token_hex(32), "METRICS_FOLDER": ""}
        web = PEERS[server.peer] if server.peer else SHOP
        folder = cleanup.enter_context(private_folder())
        stack = cleanup.enter_context(Stack(folder, urls, extra=extra, web=web))
        stack.start("web")
        targets[server] = Peer(stack) if server.peer else Shop(stack)
    return targets


@contextmanager
def _peer_tables() -> Iterator[None]:
    drop = "DROP TABLE IF EXISTS peer_order, peer_reservation, peer_sale"
    tables = Path(common.__file__).with_name("tables.sql").read_text(encoding="utf-8")
    with connection.cursor() as cursor:
        cursor.execute(f"{drop};{tables}")
    try:
        yield
    finally:
        with connection.cursor() as cursor:
            cursor.execute(drop)


class CpuClock:
    """Reads the CPU time of a shop's servers, which must run on this machine.

    Args:
        stack: with a running web server.
    """

    def __init__(self, stack: Stack) -> None:
        self._web = psutil.Process(stack.supervisor.state("web").pid)
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_backend_pid()")
            self._database = psutil.Process(cursor.fetchone()[0]).parent()
        self._redis = psutil.Process(client().info("server")["process_id"])

    def read(self) -> dict[str, float]:
        """Return the seconds used so far, user and system, by server."""
        assert self._database is not None
        servers = {"web": self._web, "database": self._database, "redis": self._redis}
        return {name: _of_tree(process) for name, process in servers.items()}


def _of_tree(parent: psutil.Process) -> float:
    """Return the seconds of a process and its children, also of those that have ended."""
    own = parent.cpu_times()
    seconds = own.user + own.system + own.children_user + own.children_system
    for child in parent.children(recursive=True):
        try:
            times = child.cpu_times()
        except psutil.NoSuchProcess:
            continue
        seconds += times.user + times.system
    return float(seconds)
