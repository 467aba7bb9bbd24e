"""Requests that the shop must refuse, and that change nothing."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import NamedTuple

from loadtest.cart import Cart, Line
from loadtest.purchases import Purchase, new_key
from loadtest.sale import Sale

NOWHERE = 2**62
"""The id of a sale and of an order that do not exist."""


class Invalid(NamedTuple):
    """A request that the shop must refuse.

    Attributes:
        path: of the request.
        body: of the request; anything.
        must: the HTTP status of the refusal.
        code: the problem code of the refusal.
        key: the idempotency key; empty for none.
        token: in place of the buyer's own; None for that one.
        order: the order that the request is about.
        method: of HTTP.
    """

    path: str
    body: bytes
    must: int
    code: str
    key: str = ""
    token: str | None = None
    order: str | None = None
    method: str = "POST"


def invalid_requests(bought: Purchase, order: str | None, token: str) -> Iterator[Invalid]:
    """Return one request of each kind.

    Args:
        bought: a purchase that the buyer has asked for.
        order: the order that it opened, if it did.
        token: of the buyer.
    """
    yield from _purchases(bought, token)
    yield from _carts(int(bought.sale.id))
    if order is not None:
        path = f"/api/v1/sales/{bought.sale.id}/orders"
        more = json_of(quantity=bought.quantity + 1)
        yield Invalid(path, more, 422, "idempotency_key_reused", bought.key)
        yield from _parts(order)


def smaller_cart(cart: Cart) -> Invalid:
    """Return a request for all but the last line of a cart that was bought, under its key."""
    return _under_its_key(cart, cart.lines[:-1])


def larger_cart(cart: Cart, more: Sale) -> Invalid:
    """Return a request for a cart that was bought and a unit of another sale, under its key."""
    return _under_its_key(cart, (*cart.lines, Line(more, 1, new_key())))


def _under_its_key(cart: Cart, lines: tuple[Line, ...]) -> Invalid:
    body = cart._replace(lines=lines).body()
    return Invalid("/api/v1/orders", body, 422, "idempotency_key_reused", cart.key)


def _purchases(bought: Purchase, token: str) -> Iterator[Invalid]:
    path, one = f"/api/v1/sales/{bought.sale.id}/orders", json_of(quantity=1)
    yield Invalid(path, one, 400, "idempotency_key_missing")
    yield Invalid(path, one, 400, "idempotency_key_missing", "7")
    yield Invalid(path, b"{", 400, "malformed", new_key())
    yield Invalid(path, b"[]", 422, "invalid_request", new_key())
    yield Invalid(path, b"{}", 422, "invalid_quantity", new_key())
    for quantity in (0, -1, 1001, 1.5, "1", True, None):
        yield Invalid(path, json_of(quantity=quantity), 422, "invalid_quantity", new_key())
    yield Invalid(path, json_of(quantity=1, price=1), 422, "invalid_request", new_key())
    nowhere = f"/api/v1/sales/{NOWHERE}/orders"
    yield Invalid(nowhere, one, 404, "not_found", new_key())
    for wrong in ("", "nonsense", *_forged(token)):
        yield Invalid(path, one, 401, "unauthorized", new_key(), wrong)


def _carts(sale: int) -> Iterator[Invalid]:
    line, path = {"sale": sale, "quantity": 1}, "/api/v1/orders"
    yield Invalid(path, json_of(lines=[line]), 400, "idempotency_key_missing")
    yield Invalid(path, json_of(lines=[]), 422, "invalid_cart", new_key())
    yield Invalid(path, json_of(lines=[line, line]), 422, "invalid_cart", new_key())
    line["quantity"] = 0
    yield Invalid(path, json_of(lines=[line]), 422, "invalid_quantity", new_key())


def _parts(order: str) -> Iterator[Invalid]:
    for step in ("cancel", "refund"):
        path = f"/api/v1/orders/{order}/{step}"
        missing = "idempotency_key_missing"
        yield Invalid(path, json_of(quantity=1), 400, missing, order=order)
        for quantity in (0, -1):
            body = json_of(quantity=quantity)
            yield Invalid(path, body, 422, "invalid_quantity", new_key(), order=order)
    nowhere = f"/api/v1/orders/{NOWHERE}/payment"
    yield Invalid(nowhere, b"", 404, "not_found", order=str(NOWHERE))


def json_of(**members: object) -> bytes:
    """Return a request's body."""
    return json.dumps(members).encode()


def _forged(token: str) -> Iterator[str]:
    """Tokens with one wrong character: in the signature, at its end, in the buyer's number."""
    for place, wrong in ((len(token) * 3 // 4, "AB"), (len(token) - 1, "AB"), (0, "78")):
        new = wrong[token[place] == wrong[0]]
        yield token[:place] + new + token[place + 1 :]
