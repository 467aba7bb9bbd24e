"""Sales in every state, orders, and the mails about them."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import uuid4

from django.db.models import QuerySet

from inventory.models import OutboxMessage
from shop.accounts.models import User
from shop.catalogue.models import Sale
from shop.catalogue.sales import open_sale
from shop.checkout import buy
from shop.mails.rendering import Kind
from shop.mails.sending import QUEUE, topic
from shop.orders.models import Order

PASSWORD = "long enough 1"


def a_sale(**different: Any) -> Sale:
    """Open a sale, by default of ten units."""
    wanted: dict[str, Any] = {"stock": 10, "price": 99_900, "limit": 1, **different}
    paused = wanted.pop("paused", False)
    sale = open_sale(**wanted)
    if paused:
        Sale.objects.filter(pk=sale.pk).update(paused=True)
    return sale


def an_upcoming_sale(seconds: float = 3600, **different: Any) -> Sale:
    return a_sale(starts_in=timedelta(seconds=seconds), **different)


def an_ended_sale() -> Sale:
    return a_sale(starts_in=timedelta(days=-2), lasts=timedelta(days=1))


def a_sold_out_sale() -> Sale:
    """A sale that stays sold out: no order awaits payment."""
    return a_sale(stock=0)


def a_buyer(password: str | None = None) -> User:
    """A buyer with an address; hashing a password takes a fifth of a second."""
    name = f"buyer-{uuid4().hex[:8]}"
    return User.objects.create_user(name, f"{name}@example.com", password)


def an_order(sale: Sale, buyer: User | None = None, quantity: int = 1) -> Order:
    bought = buy(sale.pk, (buyer or a_buyer()).pk, uuid4(), quantity)
    return Order.objects.get(pk=bought.order.pk)


def mails(order: Any) -> QuerySet[OutboxMessage]:
    """Return the messages of the mails about an order."""
    return OutboxMessage.objects.filter(queue=QUEUE, key=str(order.pk))


def mail(order: Any, kind: str = "confirmation") -> QuerySet[OutboxMessage]:
    """Return the message of one mail, if there is one."""
    return mails(order).filter(topic=topic(Kind(kind)))


def sent(order: Any) -> bool:
    """Return whether the mail server has taken the confirmation."""
    return mail(order).filter(done__isnull=False).exists()
