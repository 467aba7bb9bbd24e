"""Parts of an order: worth what they cost, under the rule of their own change, each by its key."""

from __future__ import annotations

from uuid import uuid4

import pytest

from inventory.tests.helpers import book
from shop import orders, payments
from shop.catalogue.models import Sale
from shop.checkout.purchase import Wanted, check_out
from shop.orders import NoSuchPart, Part, PartKeyReused
from shop.orders.models import Order
from shop.tests.catalogue import a_buyer, a_sale, an_order
from shop.tests.money import check, come_to_rest, deliver, make_due

pytestmark = pytest.mark.django_db(transaction=True)

PRICE = 1_250


@pytest.fixture
def sale() -> Sale:
    """Ten units, five for each buyer."""
    return a_sale(limit=5, price=PRICE)


def a_cart(*sales: Sale) -> Order:
    """An unpaid order of two units of each sale."""
    bought = check_out(a_buyer().pk, uuid4(), [Wanted(sale.pk, 2) for sale in sales])
    return Order.objects.get(pk=bought.order.pk)


def test_a_returned_part_of_several_units_gives_all_of_their_money_back(sale, fake_provider):
    mine = payments.pay(an_order(sale, quantity=4))
    payments.refund(mine, Part(3, uuid4()))
    assert fake_provider.refunds[mine.pk] == [3 * PRICE]
    assert Order.objects.get(pk=mine.pk).refunded == 3 * PRICE
    check(sale, fake_provider)


def test_the_whole_after_a_part_gives_back_what_is_left(sale, fake_provider):
    mine = payments.pay(an_order(sale, quantity=4))
    payments.refund(mine, Part(1, uuid4()))
    assert payments.refund(mine).status == "refunded"
    assert fake_provider.refunds[mine.pk] == [PRICE, 3 * PRICE]
    check(sale, fake_provider)


def test_an_order_that_is_cancelled_bit_by_bit_is_cancelled(sale, fake_provider):
    mine = an_order(sale, quantity=3)
    assert orders.cancel(mine, Part(2, uuid4())).status == "awaiting_payment"
    assert orders.cancel(mine, Part(1, uuid4())).status == "cancelled"
    check(sale, fake_provider)


@pytest.mark.parametrize("rule", ["restock_cancelled", "restock_returned"])
@pytest.mark.parametrize("change", ["cancelled", "returned"])
@pytest.mark.parametrize("part", [Part(2, uuid4()), None])
def test_units_are_written_off_by_the_rule_of_their_own_change(
    rule, change, part, sale, fake_provider
):
    Sale.objects.filter(pk=sale.pk).update(**{rule: False})
    mine = an_order(sale, quantity=3)
    if change == "cancelled":
        orders.cancel(mine, part)
    else:
        payments.refund(payments.pay(mine), part)
    back = part.quantity if part else 3
    gone = back if rule.endswith(change) else 0
    stock = book(sale.item_id)
    assert (stock.total, stock.available) == (10 - gone, 7 + back - gone)
    check(sale, fake_provider)


def test_the_key_of_a_cancelled_part_is_not_that_of_a_returned_one(sale, fake_provider):
    mine, part = an_order(sale, quantity=3), Part(1, uuid4())
    orders.cancel(mine, part)
    payments.pay(mine)
    with pytest.raises(PartKeyReused):
        payments.refund(mine, part)
    assert fake_provider.refunds[mine.pk] == []


def test_a_part_of_several_lines_must_say_of_which(sale):
    other = a_sale(limit=5)
    mine = a_cart(sale, other)
    with pytest.raises(NoSuchPart):
        orders.cancel(mine, Part(1, uuid4()))
    orders.cancel(mine, Part(1, uuid4(), other.pk))
    assert [line.returned for line in mine.lines.order_by("sale")] == [0, 1]


def test_a_cart_of_which_a_line_was_cancelled_is_paid_for_the_rest(sale, fake_provider):
    other = a_sale(limit=5)
    mine = a_cart(sale, other)
    orders.cancel(mine, Part(2, uuid4(), other.pk))
    assert payments.pay(mine).status == "paid"
    assert fake_provider.captures[mine.pk] == [2 * PRICE]


def test_a_cart_that_is_paid_late_takes_no_line_again_that_was_cancelled(sale, fake_provider):
    other = a_sale(limit=5)
    mine = a_cart(sale, other)
    orders.cancel(mine, Part(2, uuid4(), other.pk))
    fake_provider.slow = True
    payments.pay(mine)
    make_due(mine)
    orders.expire()
    deliver(fake_provider)
    come_to_rest(fake_provider)
    assert Order.objects.get(pk=mine.pk).status == "paid"
    assert (book(sale.item_id).confirmed, book(other.item_id).confirmed) == (2, 0)
    assert fake_provider.refunds[mine.pk] == []
