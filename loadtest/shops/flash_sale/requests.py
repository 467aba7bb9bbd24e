"""Everything that a buyer can ask of the shop, as requests without a buyer's token."""

from __future__ import annotations

import json

from loadtest.purchases import Cart, Part, Purchase
from loadtest.shop import Request

HOME = Request("GET", "/")
HEALTH = Request("GET", "/healthz")
ORDERS_PAGE = Request("GET", "/orders/")
SIGN_IN = Request("POST", "/api/v1/demo/sessions")


MAKES_BUYERS = "has it SHOP_DEMO=1?"
"""What to ask where the shop makes no buyers."""


def headers(token: str, *, key: str = "", cookie: str = "", body: bool = False) -> dict[str, str]:
    """Return the headers of a request in a buyer's name, under an idempotency key.

    They say what the proxy says that terminates TLS before a shop in production, which redirects
    other requests; a demo does not look at it.
    """
    found = {"Authorization": f"Bearer {token}", "X-Forwarded-Proto": "https"}
    if cookie:
        found["Cookie"] = cookie
    if body:
        found["Content-Type"] = "application/json"
    if key:
        found["Idempotency-Key"] = key
    return found


def json_of(**members: object) -> bytes:
    """Return a request's body."""
    return json.dumps(members).encode()


def purchase(wanted: Purchase) -> Request:
    """Buy."""
    return purchase_of(wanted.sale.id, b'{"quantity": %d}' % wanted.quantity)


def purchase_of(sale: str, body: bytes) -> Request:
    """Buy of a sale, whatever the body says."""
    return Request("POST", f"/api/v1/sales/{sale}/orders", body=body)


def cart(wanted: Cart) -> Request:
    """Buy a cart."""
    lines = [{"sale": int(line.sale.id), "quantity": line.quantity} for line in wanted.lines]
    return cart_of(json_of(lines=lines))


def cart_of(body: bytes) -> Request:
    """Buy a cart, whatever the body says."""
    return Request("POST", "/api/v1/orders", body=body)


def look(sale: str) -> Request:
    """Look at a sale."""
    return Request("GET", f"/api/v1/sales/{sale}")


def enter(sale: str) -> Request:
    """Enter a draw."""
    return Request("POST", f"/api/v1/sales/{sale}/entries")


def withdraw(sale: str) -> Request:
    """Withdraw an entry."""
    return Request("DELETE", f"/api/v1/sales/{sale}/entries")


def entry(sale: str) -> Request:
    """Look at one's own entry."""
    return Request("GET", f"/api/v1/sales/{sale}/entries/mine")


def draw(sale: str) -> Request:
    """Look at a draw."""
    return Request("GET", f"/api/v1/sales/{sale}/draw")


def read(order: str) -> Request:
    """Look at an order."""
    return Request("GET", f"/api/v1/orders/{order}")


def step(order: str, what: str, part: Part | None = None) -> Request:
    """Pay, cancel or refund an order, or a part of it."""
    body = b""
    if part is not None:
        line = {"sale": int(part.sale.id)} if part.named else {}
        body = json_of(quantity=part.quantity, **line)
    return step_of(order, what, body)


def step_of(order: str, what: str, body: bytes) -> Request:
    """Take an order's next step, whatever the body says."""
    return Request("POST", f"/api/v1/orders/{order}/{what}", body=body)


def restock(sale: str, units: int) -> Request:
    """Add units to a sale, as its operator; a shop that is no demo refuses it."""
    return Request("POST", f"/api/v1/demo/sales/{sale}/restock", body=b'{"units": %d}' % units)


def buyers(count: int) -> Request:
    """Make synthetic buyers; a shop that is no demo refuses it."""
    return Request("POST", "/api/v1/demo/buyers", body=json_of(count=count))


def sale_page(sale: str) -> Request:
    """Load a sale's page."""
    return Request("GET", f"/sales/{sale}/")


def order_page(order: str) -> Request:
    """Load an order's page."""
    return Request("GET", f"/orders/{order}/")


def mails_page(order: str) -> Request:
    """Load the page of an order's mails."""
    return Request("GET", f"/orders/{order}/mails/")
