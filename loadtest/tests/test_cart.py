"""A cart in the history: one purchase a line, a refusal for the line that it is about."""

from __future__ import annotations

import uuid

from loadtest.purchases import WITH_ANOTHER, Cart, Sale
from loadtest.shops.flash_sale import requests
from loadtest.shops.flash_sale.answers import Answer


def sale(identity: str) -> Sale:
    return Sale(identity, f"item {identity}", 1, 0.0)


def test_lines_are_numbered_in_the_order_of_their_sales_whatever_the_buyers() -> None:
    cart = Cart.of({sale("10"): 2, sale("9"): 1})
    assert [line.sale.id for line in cart.lines] == ["9", "10"]
    assert cart.lines[0].key == cart.key
    assert cart.lines[1].key == str(uuid.uuid5(uuid.UUID(cart.key), "1"))
    assert (
        requests.cart(cart).body
        == b'{"lines": [{"sale": 9, "quantity": 1}, {"sale": 10, "quantity": 2}]}'
    )


def test_a_refusal_is_about_the_line_that_it_names() -> None:
    cart = Cart.of({sale("1"): 1, sale("2"): 1})
    answer = Answer(409, "sold_out", {"code": "sold_out", "sale": 2}, 0.0, 0)
    assert [cart.code_of(line, answer.code, answer.about) for line in cart.lines] == [
        WITH_ANOTHER,
        "sold_out",
    ]


def test_a_refusal_that_names_no_line_is_about_all_of_them() -> None:
    cart = Cart.of({sale("1"): 1, sale("2"): 1})
    answer = Answer(503, "busy", {"code": "busy"}, 1.0, 0)
    assert [cart.code_of(line, answer.code, answer.about) for line in cart.lines] == [
        "busy",
        "busy",
    ]
