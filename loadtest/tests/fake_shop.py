"""A tiny shop in memory with the API of the real one, right or with one planted bug."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cached_property
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from typing import Any

from loadtest.checker import snapshot as s

SALE, ITEM = "1", "7"


@dataclass
class FakeOrder:
    id: str
    buyer: str
    key: str
    quantity: int
    state: str = "held"
    status: str = "pending"

    def json(self) -> dict[str, Any]:
        return {"id": self.id, "sale": SALE, "quantity": self.quantity, "status": self.status}


@dataclass
class FakeShop:
    """The rules of the shop, one call at a time; `bug` names what is wrong with it.

    The sale opens `opens_in` seconds after the first look at it, since a load takes its time to
    start. So many first looks at it as `busy` says are refused.
    """

    stock: int = 10
    limit: int = 1
    opens_in: float = 0.0
    bug: str = ""
    busy: int = 0
    orders: dict[str, FakeOrder] = field(default_factory=dict)
    movements: list[tuple[int, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.lock = threading.Lock()
        self.available = self.stock
        self.by_key: dict[tuple[str, str], FakeOrder] = {}
        self.ids = count(1)
        self.buyers = count(1)
        self.requests = 0
        self.movements.append((self.stock, "restock"))

    @cached_property
    def opens(self) -> datetime:
        return datetime.now(UTC) + timedelta(seconds=self.opens_in)

    def sale(self) -> tuple[int, dict[str, Any]]:
        if self.busy:
            self.busy -= 1
            return 503, {"code": "busy"}
        return 200, {
            "id": SALE,
            "item": ITEM,
            "starts_at": self.opens.isoformat(),
            "server_time": datetime.now(UTC).isoformat(),
            "limit": self.limit,
            "available": self.available,
        }

    def new_buyers(self, wanted: int) -> tuple[int, dict[str, Any]]:
        return 201, {"tokens": [f"b{next(self.buyers)}" for _ in range(wanted)]}

    def order(self, buyer: str, key: str, quantity: int) -> tuple[int, dict[str, Any]]:
        with self.lock:
            self.requests += 1
            if self.opens > datetime.now(UTC):
                return 403, {"code": "not_started"}
            if (known := self.by_key.get((buyer, key))) and self.bug != "duplicate":
                if known.quantity != quantity:
                    return 422, {"code": "idempotency_key_reused"}
                return 200, known.json()
            if self._bought(buyer) + quantity > self.limit and self.bug != "duplicate":
                return 409, {"code": "limit_reached"}
            if self.available < quantity and (
                self.bug != "oversell" or len(self.orders) >= self.stock + 5
            ):
                return 409, {"code": "sold_out"}
            return 201, self._sell(buyer, key, quantity).json()

    def step(self, buyer: str, order: str, op: str) -> tuple[int, dict[str, Any]]:
        with self.lock:
            found = self.orders.get(order)
            if found is None or found.buyer != buyer:
                return 404, {"code": "not_found"}
            before, after, state = {
                "payment": ("pending", "paid", "confirmed"),
                "cancel": ("pending", "cancelled", "released"),
                "refund": ("paid", "refunded", "confirmed"),
            }[op]
            if found.status != before:
                return 409, {"code": "wrong_state"}
            found.status, found.state = after, state
            if state == "released":
                self.available += found.quantity
                self.movements.append((found.quantity, "return"))
            return 200, found.json()

    def read(self, buyer: str, order: str) -> tuple[int, dict[str, Any]]:
        with self.lock:
            found = self.orders.get(order)
            if found is None or found.buyer != buyer:
                return 404, {"code": "not_found"}
            return 200, found.json()

    def rows(self) -> list[s.Row]:
        """The final snapshot."""

        def sum_of(state: str) -> int:
            return sum(o.quantity for o in self.orders.values() if o.state == state)

        ledger = sum(delta for delta, _ in self.movements)
        item = s.Item(
            ITEM, self.stock, self.available, sum_of("held"), sum_of("confirmed"), ledger, 1
        )
        rows: list[s.Row] = [item, s.Sale(SALE, ITEM, self.limit)]
        for number, (delta, reason) in enumerate(self.movements, start=1):
            rows.append(s.Movement(number, ITEM, delta, reason, 1))
        for o in self.orders.values():
            rows.append(s.Reservation(o.id, ITEM, o.buyer, o.key, o.quantity, o.state))
            rows.append(s.Order(o.id, o.id, SALE, ITEM, o.buyer, o.key, o.quantity, 999, o.status))
            rows.append(s.Effect(o.id, "confirmation", 1))
        return rows

    def _bought(self, buyer: str) -> int:
        return sum(o.quantity for o in self.by_key.values() if o.buyer == buyer)

    def _open(self, buyer: str, key: str, quantity: int) -> FakeOrder:
        order = FakeOrder(str(next(self.ids)), buyer, key, quantity)
        self.orders[order.id] = self.by_key[buyer, key] = order
        return order

    def _sell(self, buyer: str, key: str, quantity: int) -> FakeOrder:
        order = self._open(buyer, key, quantity)
        if self.available >= quantity:
            self.available -= quantity
            self.movements.append((-quantity, "sell"))
        return order


@contextmanager
def serving(shop: FakeShop) -> Iterator[str]:
    """Serve the shop on a free port of this machine; gives its address."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_GET(self) -> None:
            self._answer(*self._route("GET", {}))

        def do_POST(self) -> None:
            length = int(self.headers.get("Content-Length", 0))
            try:
                body = json.loads(self.rfile.read(length)) if length else {}
            except ValueError:
                body = None
            refused = None if "/demo/" in self.path else self._refuse(body)
            self._answer(*(refused or self._route("POST", body or {})))

        def _refuse(self, body: Any) -> tuple[int, dict[str, Any]] | None:
            """Refuse what is wrong whatever the shop has left."""
            if not re.fullmatch(r"Bearer b\d+", self.headers.get("Authorization", "")):
                return 401, {"code": "unauthorized"}
            if body is None:
                return 400, {"code": "malformed"}
            if not isinstance(body, dict) or set(body) - {"quantity", "sale", "lines"}:
                return 422, {"code": "invalid_request"}
            buys = self.path.endswith("/orders")
            if (buys or body) and self.headers.get("Idempotency-Key", "7") == "7":
                return 400, {"code": "idempotency_key_missing"}
            lines = body.get("lines", [body] if buys or body else [])
            if "lines" in body and len(lines) != len({line["sale"] for line in lines} or {0}):
                return 422, {"code": "invalid_cart"}
            for quantity in (line.get("quantity") for line in lines):
                if type(quantity) is not int or not 1 <= quantity <= 1000:
                    return 422, {"code": "invalid_quantity"}
            return None

        def _route(self, method: str, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
            buyer = self.headers.get("Authorization", "").removeprefix("Bearer ")
            match method, self.path.removeprefix("/api/v1/").split("/"):
                case "POST", ["demo", "buyers"]:
                    return shop.new_buyers(body["count"])
                case "POST", ["demo", "sessions"]:
                    return 201, {"cookie": f"sessionid={buyer}"}
                case "GET", ["", ""] | ["", "sales", "1", ""] | ["", "orders", ""]:
                    return 200, {}
                case "GET", ["", "orders", order, ""]:
                    cookie = self.headers.get("Cookie", "")
                    return shop.read(cookie.removeprefix("sessionid="), order)
                case "GET", ["sales", "1"]:
                    return shop.sale()
                case "POST", ["sales", "1", "orders"]:
                    return shop.order(buyer, self.headers["Idempotency-Key"], body["quantity"])
                case "POST", ["orders"]:
                    [line] = body["lines"]
                    return shop.order(buyer, self.headers["Idempotency-Key"], line["quantity"])
                case "GET", ["orders", order]:
                    return shop.read(buyer, order)
                case "POST", ["orders", _, "cancel" | "refund"] if "quantity" in body:
                    return 422, {"code": "invalid_quantity"}  # parts are not given back here
                case "POST", ["orders", order, ("payment" | "cancel" | "refund") as op]:
                    return shop.step(buyer, order, op)
            return 404, {"code": "not_found"}

        def _answer(self, status: int, body: dict[str, Any]) -> None:
            data = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *args: Any) -> None:
            """Be quiet."""

    class Server(ThreadingHTTPServer):
        request_queue_size = 1024
        block_on_close = False

    server = Server(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
