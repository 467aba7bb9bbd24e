"""Calls of the API that nobody should make: each has its answer, and none changes anything."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from shop.specification.order import Order
from shop.tests.specification import words
from shop.tests.specification.people import Person
from shop.tests.specification.world import World, key_of, status_of

TOO_LARGE = 2**63
UNUSED = key_of(10**9)


class Odd(NamedTuple):
    """A call, and the code that it is refused with."""

    code: str
    method: str
    path: str
    body: Any = None
    headers: dict[str, str] = {}


def odd_calls(world: World, order: Order) -> Iterator[Odd]:
    """Yield calls about an order, and about what it is of."""
    keyed = {"idempotency_key": UNUSED}
    sale = world.rows[order.lines[0].sale].pk
    mine = f"orders/{world.orders[order]}"
    buy, line = f"sales/{sale}/orders", {"sale": sale, "quantity": 1}
    # Without a token, or about what is not there.
    changes = [("POST", f"{mine}/{what}") for what in ("payment", "cancel", "refund")]
    for method, path in (("GET", mine), ("POST", buy), *changes):
        for header in ("", "Bearer", "Bearer x", "Basic x"):
            yield Odd("unauthorized", method, path, None, keyed | {"authorization": header})
    for path in (f"orders/{TOO_LARGE}", f"orders/{10**9}", f"sales/{TOO_LARGE}", "nothing"):
        yield Odd("not_found", "GET", path)
    for number in (0, 2**62, TOO_LARGE - 1, TOO_LARGE, 10**30):
        yield Odd("not_found", "POST", f"sales/{number}/orders", {"quantity": 1}, keyed)
    # A part: it has a key and units, and names nothing else.
    for what in ("cancel", "refund"):
        for code, body in (
            ("invalid_request", {"all": False}),
            ("invalid_request", {"all": True, "quantity": 1}),
            ("invalid_request", {"quantity": 1, "units": 1}),
            ("invalid_quantity", {"sale": sale}),
            ("invalid_quantity", {"all": True, "sale": sale}),
            *(("invalid_quantity", {"quantity": each}) for each in (0, -1, 1001, 1.5, "1", None)),
            ("malformed", b"{"),
        ):
            yield Odd(code, "POST", f"{mine}/{what}", body, keyed)
        yield Odd("idempotency_key_missing", "POST", f"{mine}/{what}", {"quantity": 1})
        yield Odd(
            "idempotency_key_missing", "POST", f"{mine}/{what}", None, {"idempotency_key": "1"}
        )
    for what in ("payment", "cancel", "refund"):
        yield Odd("too_large", "POST", f"{mine}/{what}", b" " * 17_000, keyed)
        # Without its length, a body might name a part.
        yield Odd("malformed", "POST", f"{mine}/{what}", None, {"transfer_encoding": "chunked"})
    # A cart.
    yield Odd("invalid_cart", "POST", "orders", {}, keyed)
    wrong = [[line | {"sale": number}] for number in (True, TOO_LARGE)]
    for lines in ([], [line] * 2, [line] * 21, None, "all", [3], [{"quantity": 1}], *wrong):
        yield Odd("invalid_cart", "POST", "orders", {"lines": lines}, keyed)


def buy_elsewhere(world: World, person: Person, order: Order) -> None:
    """Use an order's key again, in another sale of the same item."""
    sale = world.rows[order.lines[0].sale]
    other = type(sale).objects.get(pk=sale.pk)
    other.pk = None
    other.save()
    again, body = str(order.key), {"quantity": order.lines[0].quantity}
    answer = person.buyer.call("POST", f"sales/{other.pk}/orders", body, idempotency_key=again)
    assert answer.json().get("code") == "idempotency_key_reused", answer.json()
    other.delete()


def visit_oddly(person: Person) -> None:
    """Open addresses that are mistyped or out of date."""
    for page in ("0", "-1", "x", "", "999", str(TOO_LARGE)):
        assert person.browser.get(f"/orders/?page={page}").status_code == 200, page
    for kind in ("sales", "orders"):
        for number in ("0", str(10**9), str(TOO_LARGE), "x"):
            assert person.browser.get(f"/{kind}/{number}/").status_code == 404, (kind, number)
    assert person.browser.get("/nothing/").status_code == 404
    for what in ("payment", "cancel", "refund"):
        assert person.browser.get(f"/orders/1/{what}/").status_code == 405


def ask_oddly(world: World, person: Person, order: Order) -> None:
    """Make each of the odd calls, and compare the refusals."""
    for call in odd_calls(world, order):
        answer = person.buyer.call(call.method, call.path, call.body, **call.headers)
        said = answer.json()
        assert (said["code"], answer.status_code) == (call.code, status_of(call.code)), call
        assert answer.headers["Content-Type"] == "application/problem+json"
        assert "sale" not in said
        if call.code in words.REFUSED:
            assert said["title"] == words.said(words.REFUSED[call.code], chinese=False)
    reads = {"cookie": "django_language=zh-hans", "accept_language": "en"}
    reads["idempotency_key"] = UNUSED
    title = person.buyer.call("POST", "orders", {"lines": []}, **reads).json()["title"]
    assert title == words.said(words.REFUSED["invalid_cart"], chinese=True)
