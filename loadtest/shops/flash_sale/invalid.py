"""Requests that the shop must refuse, and that change nothing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from loadtest.purchases import Cart, Line, Purchase, Sale, new_key
from loadtest.shop import Request
from loadtest.shops.flash_sale import requests
from loadtest.shops.flash_sale.requests import json_of

NOWHERE = str(2**62)
"""The id of a sale and of an order that do not exist."""

KEY_REUSED = "idempotency_key_reused"


class Invalid(NamedTuple):
    """A request that the shop must refuse.

    Attributes:
        request: what is sent.
        must: the HTTP status of the refusal.
        code: the problem code of the refusal.
        key: the idempotency key; empty for none.
        token: in place of the buyer's own; None for that one.
        order: the order that the request is about.
    """

    request: Request
    must: int
    code: str
    key: str = ""
    token: str | None = None
    order: str | None = None


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
        yield other_quantity(bought, bought.quantity + 1)
        yield from _parts(order)


def smaller_cart(cart: Cart) -> Invalid:
    """Return a request for all but the last line of a cart that was bought, under its key."""
    return _under_its_key(cart, cart.lines[:-1])


def larger_cart(cart: Cart, more: Sale) -> Invalid:
    """Return a request for a cart that was bought and a unit of another sale, under its key."""
    return _under_its_key(cart, (*cart.lines, Line(more, 1, new_key())))


def _under_its_key(cart: Cart, lines: tuple[Line, ...]) -> Invalid:
    return Invalid(requests.cart(cart._replace(lines=lines)), 422, KEY_REUSED, cart.key)


def other_quantity(wanted: Purchase, quantity: int, sale: Sale | None = None) -> Invalid:
    """Return a request for another quantity, or of another sale, under a purchase's key."""
    body = json_of(quantity=quantity)
    request = requests.purchase_of((sale or wanted.sale).id, body)
    return Invalid(request, 422, KEY_REUSED, wanted.key)


def anothers_key(wanted: Purchase, *, ended: bool = False) -> Invalid:
    """Return another buyer's request for more than the limit, under the key of a purchase.

    Args:
        wanted: the purchase.
        ended: its sale is over, which is told first.
    """
    body = json_of(quantity=wanted.sale.limit + 1)
    must, code = (410, "ended") if ended else (409, "limit_reached")
    return Invalid(requests.purchase_of(wanted.sale.id, body), must, code, wanted.key)


def unnamed_part(order: str, step: str) -> Invalid:
    """Return a request to give a unit of an order of several lines back, without its line."""
    request = requests.step_of(order, step, json_of(quantity=1))
    return Invalid(request, 422, "invalid_quantity", new_key(), order=order)


def _purchases(bought: Purchase, token: str) -> Iterator[Invalid]:
    def of(body: bytes) -> Request:
        return requests.purchase_of(bought.sale.id, body)

    one = json_of(quantity=1)
    yield Invalid(of(one), 400, "idempotency_key_missing")
    yield Invalid(of(one), 400, "idempotency_key_missing", "7")
    yield Invalid(of(b"{"), 400, "malformed", new_key())
    yield Invalid(of(b"[]"), 422, "invalid_request", new_key())
    yield Invalid(of(b"{}"), 422, "invalid_quantity", new_key())
    for quantity in (0, -1, 1001, 1.5, "1", True, None):
        yield Invalid(of(json_of(quantity=quantity)), 422, "invalid_quantity", new_key())
    yield Invalid(of(json_of(quantity=1, price=1)), 422, "invalid_request", new_key())
    yield Invalid(requests.purchase_of(NOWHERE, one), 404, "not_found", new_key())
    for wrong in ("", "nonsense", *_forged(token)):
        yield Invalid(of(one), 401, "unauthorized", new_key(), wrong)


def _carts(sale: int) -> Iterator[Invalid]:
    def of(*lines: dict[str, int]) -> Request:
        return requests.cart_of(json_of(lines=lines))

    line = {"sale": sale, "quantity": 1}
    yield Invalid(of(line), 400, "idempotency_key_missing")
    yield Invalid(of(), 422, "invalid_cart", new_key())
    yield Invalid(of(line, line), 422, "invalid_cart", new_key())
    yield Invalid(of({**line, "quantity": 0}), 422, "invalid_quantity", new_key())


def _parts(order: str) -> Iterator[Invalid]:
    for step in ("cancel", "refund"):
        request = requests.step_of(order, step, json_of(quantity=1))
        yield Invalid(request, 400, "idempotency_key_missing", order=order)
        for quantity in (0, -1):
            wrong = requests.step_of(order, step, json_of(quantity=quantity))
            yield Invalid(wrong, 422, "invalid_quantity", new_key(), order=order)
    yield Invalid(requests.step(NOWHERE, "payment"), 404, "not_found", order=NOWHERE)


def _forged(token: str) -> Iterator[str]:
    """Tokens with one wrong character: in the signature, at its end, in the buyer's number."""
    for place, wrong in ((len(token) * 3 // 4, "AB"), (len(token) - 1, "AB"), (0, "78")):
        new = wrong[token[place] == wrong[0]]
        yield token[:place] + new + token[place + 1 :]
