"""Requests that the shop must refuse, and that change nothing."""

from __future__ import annotations

from collections.abc import Iterator

from loadtest.purchases import Ask, Cart, Line, Purchase, Sale, new_key
from loadtest.shop import Request
from loadtest.shops.flash_sale import requests
from loadtest.shops.flash_sale.requests import json_of

NOWHERE = str(2**62)
"""The id of a sale and of an order that do not exist."""


def _invalid(
    request: Request, must: int, key: str = "", token: str | None = None, order: str | None = None
) -> Ask:
    """Return a request that the shop must refuse with this HTTP status."""
    return Ask("invalid", request, key, must=must, token=token, order=order)


def invalid_requests(bought: Purchase, order: str | None, token: str) -> Iterator[Ask]:
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


def smaller_cart(cart: Cart) -> Ask:
    """Return a request for all but the last line of a cart that was bought, under its key."""
    return _under_its_key(cart, cart.lines[:-1])


def larger_cart(cart: Cart, more: Sale) -> Ask:
    """Return a request for a cart that was bought and a unit of another sale, under its key."""
    return _under_its_key(cart, (*cart.lines, Line(more, 1, new_key())))


def _under_its_key(cart: Cart, lines: tuple[Line, ...]) -> Ask:
    return _invalid(requests.cart(cart._replace(lines=lines)), 422, cart.key)


def other_quantity(wanted: Purchase, quantity: int) -> Ask:
    """Return a request for another quantity under a purchase's key."""
    request = requests.purchase_of(wanted.sale.id, json_of(quantity=quantity))
    return _invalid(request, 422, wanted.key)


def anothers_key(wanted: Purchase, *, ended: bool = False) -> Ask:
    """Return another buyer's request for more than the limit, under the key of a purchase.

    Args:
        wanted: the purchase.
        ended: its sale is over, which is told first.
    """
    body = json_of(quantity=wanted.sale.limit + 1)
    return _invalid(requests.purchase_of(wanted.sale.id, body), 410 if ended else 409, wanted.key)


def _purchases(bought: Purchase, token: str) -> Iterator[Ask]:
    def of(body: bytes) -> Request:
        return requests.purchase_of(bought.sale.id, body)

    one = json_of(quantity=1)
    yield _invalid(of(one), 400)
    yield _invalid(of(one), 400, "7")
    yield _invalid(of(b"{"), 400, new_key())
    yield _invalid(of(b"[]"), 422, new_key())
    yield _invalid(of(b"{}"), 422, new_key())
    for quantity in (0, -1, 1001, 1.5, "1", True, None):
        yield _invalid(of(json_of(quantity=quantity)), 422, new_key())
    yield _invalid(of(json_of(quantity=1, price=1)), 422, new_key())
    yield _invalid(requests.purchase_of(NOWHERE, one), 404, new_key())
    for wrong in ("", "nonsense", *_forged(token)):
        yield _invalid(of(one), 401, new_key(), wrong)


def _carts(sale: int) -> Iterator[Ask]:
    def of(*lines: dict[str, int]) -> Request:
        return requests.cart_of(json_of(lines=lines))

    line = {"sale": sale, "quantity": 1}
    yield _invalid(of(line), 400)
    yield _invalid(of(), 422, new_key())
    yield _invalid(of(line, line), 422, new_key())
    yield _invalid(of({**line, "quantity": 0}), 422, new_key())


def _parts(order: str) -> Iterator[Ask]:
    for step in ("cancel", "refund"):
        request = requests.step_of(order, step, json_of(quantity=1))
        yield _invalid(request, 400, order=order)
        for quantity in (0, -1):
            wrong = requests.step_of(order, step, json_of(quantity=quantity))
            yield _invalid(wrong, 422, new_key(), order=order)
    yield _invalid(requests.step(NOWHERE, "payment"), 404, order=NOWHERE)


def _forged(token: str) -> Iterator[str]:
    """Tokens with one wrong character: in the signature, at its end, in the buyer's number."""
    for place, wrong in ((len(token) * 3 // 4, "AB"), (len(token) - 1, "AB"), (0, "78")):
        new = wrong[token[place] == wrong[0]]
        yield token[:place] + new + token[place + 1 :]
