"""The model behind the API of our shop, called directly or served; right, or with a planted bug."""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import cached_property
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from math import floor
from random import Random
from typing import Any

from loadtest.tests.model_shop import CURRENCY, ModelShop, Reply, item_of
from loadtest.tests.trivial_server import in_thread
from shop.tests.model import Order, Part, Sale

FOREVER = 10**9
Answer = tuple[int, dict[str, Any]]


class FakeShop(ModelShop):
    """A shop of one sale, unless others are given; `bug` names what is wrong with it.

    It opens `opens_in` seconds after the first request, since a load takes its time to start. So
    many first looks at a sale as `busy` says are refused.
    """

    prefix = ""

    def __init__(
        self,
        *sales: Sale,
        stock: int = 10,
        limit: int = 1,
        opens_in: float = 0.0,
        bug: str = "",
        busy: int = 0,
    ) -> None:
        one = Sale("1", stock, 999, CURRENCY, limit, 0, FOREVER, FOREVER)
        super().__init__(list(sales) or [one], Random(1))
        self.opens_in, self.bug, self.busy = opens_in, bug, busy
        self.lock = threading.Lock()
        self.made = count(1)
        self.purchases = 0

    def available(self, sale: Sale) -> int:
        """The units for sale: five more than there are, if it oversells."""
        return super().available(sale) + 5 * (self.bug == "oversell")

    def of(self, buyer: str) -> list[Order]:
        """A buyer's orders, by which it knows keys and limits."""
        return [] if self.bug == "duplicate" else super().of(buyer)

    @cached_property
    def opening(self) -> float:
        return time.monotonic() + self.opens_in

    def handle(self, method: str, path: str, headers: Mapping[str, str], content: bytes) -> Answer:
        """Answer a request; meanwhile, the payment provider may have moved money."""
        with self.lock:
            opening = self.opening
            self.now = self.began = floor(time.monotonic() - opening)
            for order, money in list(self.under_way()):
                if self.random.random() < 0.5:
                    self.arrive(order, money)
            try:
                body = json.loads(content or b"{}")
            except ValueError:
                body = None
            refused = None
            if method == "POST" and "/demo/" not in path:
                refused = _refuse(path, headers, body)
            return refused or self._route(method, path, headers, body)

    def _route(self, method: str, path: str, headers: Mapping[str, str], body: Any) -> Answer:
        buyer = headers.get("Authorization", "").removeprefix("Bearer ")
        key = headers.get("Idempotency-Key", "")
        sales = {sale.name: sale for sale in self.sales}
        match method, path.removeprefix("/api/v1/").split("/"):
            case "POST", ["demo", "buyers"]:
                return 201, {"tokens": [f"b{next(self.made)}" for _ in range(body["count"])]}
            case "POST", ["demo", "sessions"]:
                return 201, {"cookie": f"sessionid={buyer}"}
            case "POST", ["demo", "sales", number, "restock"]:
                sales[number].total += body["units"]
                self.keep_books()
                return 200, {"available": self.available(sales[number])}
            case "GET", ["", ""] | ["", "sales", _, ""] | ["", "orders", ""]:
                return 200, {}
            case "GET", ["", "orders", order, ""]:
                buyer = headers.get("Cookie", "").removeprefix("sessionid=")
                return _document(self.answer("read", buyer, order))
            case "GET", ["sales", number] if number in sales:
                return self._look(sales[number])
            case "POST", ["sales", number, "orders"] if number in sales:
                self.purchases += 1
                return _document(self.order(buyer, key, {number: body["quantity"]}, cart=False))
            case "POST", ["orders"]:
                wanted = {str(line["sale"]): line["quantity"] for line in body["lines"]}
                return _document(self.order(buyer, key, wanted, cart=True), cart=True)
            case "GET", ["orders", order]:
                return _document(self.answer("read", buyer, order))
            case "POST", ["orders", order, ("payment" | "cancel" | "refund") as op]:
                part = None
                if "quantity" in body:
                    part = Part(body["quantity"], key, sales.get(str(body.get("sale"))))
                return _document(self.answer(op, buyer, order, part))
        return 404, {"code": "not_found"}

    def _look(self, sale: Sale) -> Answer:
        if self.busy:
            self.busy -= 1
            return 503, {"code": "busy"}
        now, available = datetime.now(UTC), self.available(sale)
        opens = now + timedelta(seconds=self.opening - time.monotonic())
        return 200, {
            "id": sale.name,
            "item": item_of(sale),
            "starts_at": opens.isoformat(),
            "server_time": now.isoformat(),
            "limit": sale.limit,
            "status": self.status(sale),
            "price": {"amount": sale.price, "currency": sale.currency},
            "available": available,
            "may_come_back": not available and self.may_come_back(sale),
        }


def _refuse(path: str, headers: Mapping[str, str], body: Any) -> Answer | None:
    """Refuse what is wrong whatever the shop has left."""
    if not re.fullmatch(r"Bearer b\d+", headers.get("Authorization", "")):
        return 401, {"code": "unauthorized"}
    if body is None:
        return 400, {"code": "malformed"}
    if not isinstance(body, dict) or set(body) - {"quantity", "sale", "lines"}:
        return 422, {"code": "invalid_request"}
    buys = path.endswith("/orders")
    if (buys or body) and headers.get("Idempotency-Key", "7") == "7":
        return 400, {"code": "idempotency_key_missing"}
    lines = body.get("lines", [body] if buys or body else [])
    if "lines" in body and len(lines) != len({line["sale"] for line in lines} or {0}):
        return 422, {"code": "invalid_cart"}
    for quantity in (line.get("quantity") for line in lines):
        if type(quantity) is not int or not 1 <= quantity <= 1000:
            return 422, {"code": "invalid_quantity"}
    return None


def _document(reply: Reply, *, cart: bool = False) -> Answer:
    if reply.shown is None:
        about = {"sale": int(reply.about)} if cart and reply.figures else {}
        return reply.status, {"code": reply.code, **reply.figures, **about}
    shown = reply.shown
    return reply.status, {
        "id": reply.order,
        "status": shown["status"],
        "amount": {"amount": shown["amount"], "currency": shown["currency"]},
        "refunded": {"amount": shown["refunded"]},
        "lines": [{"returned": shown["returned"]}],
    }


@contextmanager
def serving(shop: FakeShop) -> Iterator[str]:
    """Serve the shop on a free port of this machine; gives its address."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_GET(self) -> None:
            content = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            status, body = shop.handle(self.command, self.path, dict(self.headers), content)
            data = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def do_POST(self) -> None:
            self.do_GET()

        def log_message(self, *args: Any) -> None:
            """Be quiet."""

    class Server(ThreadingHTTPServer):
        request_queue_size = 1024
        block_on_close = False

    with in_thread(Server(("127.0.0.1", 0), Handler)) as server:
        yield f"http://127.0.0.1:{server.server_port}"
