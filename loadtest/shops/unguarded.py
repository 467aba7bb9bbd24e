"""A shop that oversells: the read-check-write code that most programmers write first, over SQLite.

It also lets a voucher be used too often, and reads the cart once for its total and once for the
order's lines, as the shops of ACIDRain did. `python -m loadtest.shops.unguarded PORT` serves it;
with `--guarded` each request is one transaction, which is the whole cure.

Shops differ in when they take a unit out of the stock: `--reserve` says whether this one does so
when it enters the cart, at the checkout, or when it is paid. All three are right if each request is
one transaction. `--fault` plants one thing that a correct shop would not do.
"""

from __future__ import annotations

import json
import sqlite3
import sys
import tempfile
import time
from argparse import ArgumentParser
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import closing
from enum import StrEnum
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from pathlib import Path
from typing import Any

from loadtest.address import address_of
from loadtest.release import send
from loadtest.shop import (
    SOLD_OUT,
    Bill,
    Books,
    Declined,
    Hold,
    Level,
    Outcome,
    Refused,
    Request,
    Response,
    Send,
    Sold,
    Unknown,
)

PRICE = 100
ROUND_TRIP = 0.0005
"""Seconds to a database server and back, between reading and writing; SQLite needs none."""
SCHEMA = """
    PRAGMA journal_mode = WAL;
    CREATE TABLE sale (id INTEGER PRIMARY KEY, total INTEGER, left INTEGER, uses INTEGER);
    CREATE TABLE cart (buyer TEXT PRIMARY KEY, sale INTEGER, units INTEGER DEFAULT 0,
        held INTEGER DEFAULT 0, voucher INTEGER DEFAULT 0, since REAL DEFAULT 0);
    CREATE TABLE bought (id INTEGER PRIMARY KEY AUTOINCREMENT, sale INTEGER, units INTEGER,
        paid INTEGER, voucher INTEGER, since REAL);
    CREATE TABLE request (key TEXT PRIMARY KEY, bought INTEGER, units INTEGER);
"""


class Reserve(StrEnum):
    """When a unit leaves the stock."""

    CART = "cart"
    CHECKOUT = "checkout"
    PAYMENT = "payment"


class Fault(StrEnum):
    """What a shop does wrong, however it is guarded."""

    NONE = ""
    CANCELS_NOTHING = "cancels-nothing"
    """A cancellation is granted, and the order stays."""
    CANCELS_MOST = "cancels-most"
    """Every thirtieth order stays although its cancellation is granted."""
    CANCELS_FOR_GOOD = "cancels-for-good"
    """A cancelled order's units never come back."""
    CANCELS_TWICE = "cancels-twice"
    """A cancelled order's units come back with each request to cancel it."""
    LOSES_ORDERS = "loses-orders"
    """Every eighth order is answered and not written."""
    SELLS_TOO_MANY = "sells-too-many"
    """The stock is not looked at."""
    REFUSES_SOME = "refuses-some"
    """Every thirtieth buyer gets the answer “sold out”, whatever is left."""
    REFUSES_AND_SELLS = "refuses-and-sells"
    """Every eighth order is written and refused."""
    KEYS_AFTER_SALE = "keys-after-sale"
    """The key of a purchase is written when the sale is over, in a transaction of its own."""
    COUNTER_DRIFTS = "counter-drifts"
    """What is left is read before the transaction that sells and writes it back, less one."""
    EXPIRES_TWICE = "expires-twice"
    """Orders to expire are looked up in one transaction, and their units given back in the next."""
    NEVER_EXPIRES = "never-expires"
    """Nothing expires."""


class Server(ThreadingHTTPServer):
    """The shop: a thread per connection."""

    daemon_threads = True
    request_queue_size = 512

    def __init__(
        self,
        port: int,
        folder: Path,
        *,
        guarded: bool = False,
        reserve: Reserve = Reserve.PAYMENT,
        fault: Fault = Fault.NONE,
        hold: float = 900.0,
    ) -> None:
        """Serve on this port of this machine, 0 for any; the database is in the folder.

        Units are held for `hold` seconds, by carts or by orders, and come back when asked.
        """
        super().__init__(("127.0.0.1", port), _Handler)
        self.path, self.guarded = folder / "shop.sqlite", guarded
        self.reserve, self.fault, self.hold = reserve, fault, hold
        self.asked = count(1)
        with closing(self.connect()) as database:
            database.executescript(SCHEMA)

    @property
    def url(self) -> str:
        """Its address."""
        return f"http://127.0.0.1:{self.server_address[1]}"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Print an error, unless it is that a buyer has hung up."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)

    def connect(self) -> sqlite3.Connection:
        """Connect to the database."""
        opened = sqlite3.connect(self.path, timeout=20, isolation_level=None)
        opened.execute("PRAGMA synchronous = OFF")
        return opened


class _Handler(BaseHTTPRequestHandler):
    server: Server

    def log_message(self, *_: object) -> None:
        """Log nothing."""

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))))
        database = self.server.connect()
        try:
            if self.server.guarded:
                database.execute("BEGIN IMMEDIATE")
            status, said = _ACTIONS[self.path](self.server, database, asked)
            if self.server.guarded:
                database.execute("COMMIT")
        finally:
            database.close()
        self.send_response(status)
        self.end_headers()
        self.wfile.write(json.dumps(said).encode())


Asked = dict[str, Any]


def _open(_: Server, database: sqlite3.Connection, asked: Asked) -> tuple[int, Any]:
    row = database.execute(
        "INSERT INTO sale (total, left, uses) VALUES (?, ?, 0)", (asked["units"], asked["units"])
    )
    return 201, {"sale": row.lastrowid}


def _voucher(_: Server, database: sqlite3.Connection, asked: Asked) -> tuple[int, Any]:
    database.execute("UPDATE sale SET uses = ? WHERE id = ?", (asked["uses"], asked["sale"]))
    return 201, {}


def _add(server: Server, database: sqlite3.Connection, asked: Asked) -> tuple[int, Any]:
    buyer = (asked["buyer"],)
    insert = "INSERT INTO cart (buyer, sale) VALUES (?, ?) ON CONFLICT DO NOTHING"
    database.execute(insert, (*buyer, asked["sale"]))
    if server.reserve is Reserve.CART:
        if not _take(server, database, asked["sale"], 1):
            return 409, {"error": SOLD_OUT}
        hold = "UPDATE cart SET held = held + 1, since = ? WHERE buyer = ?"
        database.execute(hold, (time.time(), *buyer))
    database.execute("UPDATE cart SET units = units + 1 WHERE buyer = ?", buyer)
    return 200, {}


def _take(server: Server, database: sqlite3.Connection, sale: int, units: int) -> bool:
    """Take units out of the stock; return whether there were enough."""
    (left,) = database.execute("SELECT left FROM sale WHERE id = ?", (sale,)).fetchone()
    if server.fault is Fault.COUNTER_DRIFTS:
        return _take_by_count(database, sale, units, left)
    time.sleep(ROUND_TRIP)
    if left < units and server.fault is not Fault.SELLS_TOO_MANY:
        return False
    database.execute("UPDATE sale SET left = ? WHERE id = ?", (left - units, sale))
    return True


def _take_by_count(database: sqlite3.Connection, sale: int, units: int, left: int) -> bool:
    """Take units if the orders leave enough; the counter is only for show, and was read before."""
    database.execute("COMMIT")
    time.sleep(ROUND_TRIP)
    database.execute("BEGIN IMMEDIATE")
    (enough,) = database.execute(
        """SELECT total - ? >= (SELECT coalesce(sum(units), 0) FROM bought WHERE sale = sale.id)
        FROM sale WHERE id = ?""",
        (units, sale),
    ).fetchone()
    if enough:
        database.execute("UPDATE sale SET left = ? WHERE id = ?", (left - units, sale))
    return bool(enough)


def _redeem(_: Server, database: sqlite3.Connection, asked: Asked) -> tuple[int, Any]:
    (left,) = database.execute(
        """SELECT uses - (SELECT count(*) FROM cart WHERE cart.sale = sale.id AND voucher)
        FROM sale WHERE id = ?""",
        (asked["sale"],),
    ).fetchone()
    time.sleep(ROUND_TRIP)
    if left < 1:
        return 409, {"error": "voucher used up"}
    database.execute("UPDATE cart SET voucher = 1 WHERE buyer = ?", (asked["buyer"],))
    return 200, {}


def _checkout(server: Server, database: sqlite3.Connection, asked: Asked) -> tuple[int, Any]:
    """Hold what is in the cart and not held yet."""
    buyer = (asked["buyer"],)
    query = "SELECT units - held FROM cart WHERE buyer = ?"
    found = database.execute(query, buyer).fetchone()
    if found is None or not _take(server, database, asked["sale"], found[0]):
        return 409, {"error": SOLD_OUT}
    hold = "UPDATE cart SET held = held + ?, since = ? WHERE buyer = ?"
    database.execute(hold, (*found, time.time(), *buyer))
    return 200, {}


def _buy(server: Server, database: sqlite3.Connection, asked: Asked) -> tuple[int, Any]:
    buyer, number = (asked["buyer"],), next(server.asked)
    key, known = asked.get("key"), None
    if key is not None:
        query = "SELECT bought, units FROM request WHERE key = ?"
        known = database.execute(query, (key,)).fetchone()
    if known is not None:
        return 201, {"order": known[0], "units": known[1]}
    of_cart = "SELECT units, held, voucher FROM cart WHERE buyer = ?"
    units, held, voucher = database.execute(of_cart, buyer).fetchone()
    if server.fault is Fault.REFUSES_SOME and number % 30 == 0:
        return 409, {"error": SOLD_OUT}
    if server.reserve is not Reserve.PAYMENT:
        units = held  # nothing else is paid for
    if units == 0 or not _take(server, database, asked["sale"], units - held):
        return 409, {"error": SOLD_OUT}
    if server.reserve is Reserve.PAYMENT:
        in_order, _, _ = database.execute(of_cart, buyer).fetchone()
    else:
        in_order = held
        keep = "UPDATE cart SET units = units - ?, held = held - ? WHERE buyer = ?"
        database.execute(keep, (held, held, *buyer))
    if server.fault is Fault.LOSES_ORDERS and number % 8 == 0:
        return 201, {"order": 1_000_000 + number, "units": in_order}
    row = database.execute(
        "INSERT INTO bought (sale, units, paid, voucher, since) VALUES (?, ?, ?, ?, ?)",
        (asked["sale"], in_order, units * PRICE, voucher, time.time()),
    )
    if key is not None:
        if server.fault is Fault.KEYS_AFTER_SALE:
            database.execute("COMMIT")
            time.sleep(ROUND_TRIP)
            database.execute("BEGIN IMMEDIATE")
        write = "INSERT OR REPLACE INTO request (key, bought, units) VALUES (?, ?, ?)"
        database.execute(write, (key, row.lastrowid, in_order))
    if server.fault is Fault.REFUSES_AND_SELLS and number % 8 == 0:
        return 409, {"error": "payment_declined"}
    return 201, {"order": row.lastrowid, "units": in_order}


def _cancel(server: Server, database: sqlite3.Connection, asked: Asked) -> tuple[int, Any]:
    order = (asked["order"],)
    row = database.execute("SELECT units, sale FROM bought WHERE id = ?", order).fetchone()
    time.sleep(ROUND_TRIP)
    rare = server.fault is Fault.CANCELS_MOST and asked["order"] % 30 == 0
    if rare or server.fault is Fault.CANCELS_NOTHING:
        return 200, {}
    if row is None and server.fault is Fault.CANCELS_TWICE:
        database.execute("UPDATE sale SET left = left + 1 WHERE id = ?", (asked["sale"],))
        return 200, {}
    if row is None:
        return 409, {"error": "no such order"}
    database.execute("DELETE FROM bought WHERE id = ?", order)
    if server.fault is not Fault.CANCELS_FOR_GOOD:
        database.execute("UPDATE sale SET left = left + ? WHERE id = ?", row)
    return 200, {}


def _expire(server: Server, database: sqlite3.Connection, asked: Asked) -> tuple[int, Any]:
    """Give back what has been held for too long: by carts, or by orders that nobody has paid."""
    if server.fault is Fault.NEVER_EXPIRES:
        return 200, {}
    late = (asked["sale"], time.time() - server.hold)
    if server.reserve is not Reserve.PAYMENT:
        query = "SELECT coalesce(sum(held), 0) FROM cart WHERE sale = ? AND since < ?"
        (units,) = database.execute(query, late).fetchone()
        empty = "UPDATE cart SET held = 0, units = 0 WHERE sale = ? AND since < ?"
        database.execute(empty, late)
        give_back = "UPDATE sale SET left = left + ? WHERE id = ?"
        database.execute(give_back, (units, asked["sale"]))
        return 200, {}
    query = "SELECT units, sale, id FROM bought WHERE sale = ? AND since < ?"
    due = database.execute(query, late).fetchall()
    if server.fault is Fault.EXPIRES_TWICE:
        database.execute("COMMIT")
        time.sleep(ROUND_TRIP)
        database.execute("BEGIN IMMEDIATE")
    for units, sale, order in due:
        database.execute("DELETE FROM bought WHERE id = ?", (order,))
        database.execute("UPDATE sale SET left = left + ? WHERE id = ?", (units, sale))
    return 200, {}


def _books(server: Server, database: sqlite3.Connection, asked: Asked) -> tuple[int, Any]:
    sale = (asked["sale"],)
    total, left = database.execute("SELECT total, left FROM sale WHERE id = ?", sale).fetchone()
    rows = database.execute("SELECT id, units, paid, voucher FROM bought WHERE sale = ?", sale)
    said = {"total": total, "left": left, "orders": rows.fetchall()}
    of_orders = server.reserve is Reserve.PAYMENT
    return 200, said | {"hold": server.hold, "orders_hold": of_orders}


_ACTIONS = {
    "/sales": _open,
    "/voucher": _voucher,
    "/cart": _add,
    "/redeem": _redeem,
    "/checkout": _checkout,
    "/buy": _buy,
    "/cancel": _cancel,
    "/expire": _expire,
    "/books": _books,
}


class Adapter:
    """The shop as the proof sees it."""

    name, version = "unguarded", "1"
    levels = frozenset({Level.STOCK, Level.VOUCHERS, Level.CARTS, Level.CANCEL})

    def __init__(self, url: str) -> None:
        self._address = address_of(url)
        self._made: Counter[str] = Counter()

    def open(self, units: int) -> str:
        """Open a sale."""
        return str(self._ask("/sales", units=units)["sale"])

    def buyers(self, sale: str, count: int) -> Sequence[str]:
        """Name buyers: the shop has no accounts."""
        first = self._made[sale]
        self._made[sale] += count
        return [f"{sale}/{number}" for number in range(first, first + count)]

    def add_to_cart(self, sale: str, buyer: str) -> Request:
        """Add a unit."""
        return _request("/cart", sale=sale, buyer=buyer)

    def prepare(self, sale: str, buyer: str, send: Send) -> None:
        """Do nothing: the shop asks for no address."""

    def buy(self, sale: str, buyer: str) -> Request:
        """Buy what is in the cart."""
        return _request("/buy", sale=sale, buyer=buyer)

    def outcome(self, sale: str, buyer: str, response: Response) -> Outcome:
        """Understand the answer."""
        said = json.loads(response.body) if response.status in (201, 409) else {}
        if response.status == 201:
            return Sold(str(said["order"]), said["units"])
        return Refused(said["error"]) if said else Unknown(f"status {response.status}")

    def cancel(self, sale: str, buyer: str, order: str) -> Request:
        """Give an order back."""
        return _request("/cancel", order=int(order), sale=sale)

    def books(self, sale: str) -> Books:
        """Read the books."""
        said = self._ask("/books", sale=sale)
        return Books(said["total"], said["left"], {str(row[0]): row[1] for row in said["orders"]})

    def hold(self, sale: str) -> Hold:
        """Read for how long units are held."""
        said = self._ask("/books", sale=sale)
        return Hold(said["hold"], orders=said["orders_hold"])

    def expire(self, sale: str) -> Request:
        """End what is out of time."""
        return _request("/expire", sale=sale)

    def voucher(self, sale: str, uses: int) -> str:
        """Let the sale's one voucher be used so often."""
        self._ask("/voucher", sale=sale, uses=uses)
        return f"voucher of {sale}"

    def redeem(self, sale: str, buyer: str, voucher: str) -> Request:
        """Put the voucher on the cart."""
        return _request("/redeem", sale=sale, buyer=buyer)

    def redeemed(self, sale: str, voucher: str) -> int:
        """Count the orders with the voucher."""
        return sum(row[3] for row in self._ask("/books", sale=sale)["orders"])

    def add_more(self, sale: str, buyer: str) -> Request:
        """Add another unit."""
        return self.add_to_cart(sale, buyer)

    def bills(self, sale: str) -> Mapping[str, Bill]:
        """Compare what was paid with the price of what the orders hold."""
        rows = self._ask("/books", sale=sale)["orders"]
        return {str(order): Bill(paid, units * PRICE) for order, units, paid, _ in rows}

    def _ask(self, path: str, **asked: Any) -> Any:
        return json.loads(send(self._address, _request(path, **asked)).body)


class Expiring(Adapter):
    """The shop with a short time to pay."""

    levels = frozenset({Level.STOCK, Level.CANCEL, Level.EXPIRY})


class Keyed(Adapter):
    """The shop that is sent a key with each purchase."""

    levels = frozenset({Level.STOCK, Level.REPEATS})

    def buy(self, sale: str, buyer: str) -> Request:
        """Buy what is in the cart, once, however often it is asked."""
        return _request("/buy", sale=sale, buyer=buyer, key=buyer)


class AtCart(Adapter):
    """The shop that reserves at the cart: who gets no unit there does not go on."""

    def added(self, sale: str, buyer: str, response: Response) -> None:
        """Turn away a buyer who got nothing."""
        if response.status == 409:
            raise Declined(SOLD_OUT)


class AtCheckout(Adapter):
    """The shop whose checkout comes before the last step."""

    def prepare(self, sale: str, buyer: str, send: Send) -> None:
        """Check out what is in the cart."""
        answer = send(_request("/checkout", sale=sale, buyer=buyer))
        if answer.status == 409:
            raise Declined(SOLD_OUT)


def _request(path: str, **asked: Any) -> Request:
    return Request("POST", path, {"Content-Type": "application/json"}, json.dumps(asked).encode())


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        parser = ArgumentParser(description="Serve a shop that oversells, on this machine.")
        parser.add_argument("port", type=int)
        parser.add_argument("--guarded", action="store_true", help="one transaction a request")
        parser.add_argument("--reserve", type=Reserve, choices=[*Reserve], default=Reserve.PAYMENT)
        parser.add_argument("--hold", type=float, default=900.0, help="seconds (900)")
        parser.add_argument("--fault", type=Fault, choices=[*Fault], default=Fault.NONE)
        said = vars(parser.parse_args())
        with Server(said.pop("port"), Path(folder), **said) as server:
            server.serve_forever()
