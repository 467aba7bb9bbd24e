"""The demo's catalogue and logins. Filling in twice changes nothing that is still of use."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import uuid4

from django.contrib.auth.models import User

from lab.demo.buyers import create_synthetic_buyers
from shop import payments
from shop.accounts import tokens
from shop.catalogue.models import Product, Sale
from shop.catalogue.sales import database_time, open_sale
from shop.checkout.purchase import buy
from shop.orders.models import Order
from shop.payments.provider import PaymentUnknown

NOW = timedelta(0)
SOON = timedelta(minutes=5)
LONG = timedelta(days=30)


@dataclass(frozen=True, slots=True)
class Login:
    """Somebody who can sign in to the demo."""

    role: str
    username: str
    password: str


LOGINS = (
    Login("admin", "admin", "demo-admin"),
    Login("buyer", "buyer", "demo-buyer"),
)


@dataclass(frozen=True, slots=True)
class Entry:
    """A product and the sale of it that the demo shows.

    Attributes:
        list_price, price: in minor units.
        starts_in: from the time of filling in; negative for a sale of the past.
        renewed: when a new sale of it is opened: "when_over" or "when_begun" (it shows a
            countdown), or "never".
        sold: buyers that have bought a unit before anybody looks.
    """

    slug: str
    name: str
    description: str
    list_price: int
    price: int
    stock: int
    limit: int = 1
    starts_in: timedelta = NOW
    lasts: timedelta = LONG
    strategy: str = "combining"
    renewed: str = "when_over"
    sold: int = 0


CATALOGUE = (
    Entry(
        slug="classic-phone",
        name="Classic phone",
        description="The classic of every flash sale: list price 1999, on sale at 999, ten units.",
        list_price=199_900,
        price=99_900,
        stock=10,
    ),
    Entry(
        slug="headphones",
        name="Headphones",
        description="Plenty of them, and up to three for each buyer.",
        list_price=89_900,
        price=29_900,
        stock=5000,
        limit=3,
    ),
    Entry(
        slug="watch",
        name="Smart watch",
        description="Opens in a few minutes: watch the countdown, and be quick.",
        list_price=129_900,
        price=59_900,
        stock=50,
        starts_in=SOON,
        lasts=timedelta(hours=2),
        renewed="when_begun",
    ),
    Entry(
        slug="lamp",
        name="Desk lamp",
        description="Sold one row lock at a time, to compare the strategies.",
        list_price=19_900,
        price=9_900,
        stock=200,
        limit=2,
        strategy="row_lock",
    ),
    Entry(
        slug="espresso",
        name="Espresso set",
        description="Was gone in a moment.",
        list_price=49_900,
        price=24_900,
        stock=5,
        sold=5,
    ),
    Entry(
        slug="travel-mug",
        name="Travel mug",
        description="Yesterday's sale.",
        list_price=7_900,
        price=3_900,
        stock=100,
        starts_in=-timedelta(days=2),
        lasts=timedelta(days=1),
        renewed="never",
    ),
)


def create_logins() -> None:
    """Create the demo's users, unless they are there."""
    for login in LOGINS:
        if User.objects.filter(username=login.username).exists():
            continue
        create = User.objects.create_superuser if login.role == "admin" else _create_buyer
        create(login.username, f"{login.username}@example.com", login.password)


def fill_catalogue() -> list[Sale]:
    """Create the products and sales that are missing, and those whose time has passed.

    Returns:
        The sale of each entry.
    """
    # From the last to the first, since the home page shows what is newest first.
    return [_sale_of(entry) for entry in reversed(CATALOGUE)][::-1]


def _create_buyer(username: str, email: str, password: str) -> User:
    return User.objects.create_user(username, email, password)


def _sale_of(entry: Entry) -> Sale:
    product, _ = Product.objects.get_or_create(
        slug=entry.slug,
        defaults={
            "name": entry.name,
            "description": entry.description,
            "list_price": entry.list_price,
        },
    )
    latest = Sale.objects.filter(product=product).order_by("-starts_at").first()
    if latest is not None and not _to_be_renewed(entry, latest, database_time()):
        return latest
    sale = open_sale(
        stock=entry.stock,
        price=entry.price,
        limit=entry.limit,
        product=product,
        strategy=entry.strategy,
        starts_in=entry.starts_in,
        lasts=entry.lasts,
    )
    _sell(sale, map(tokens.verify, create_synthetic_buyers(entry.sold)))
    return sale


def _to_be_renewed(entry: Entry, sale: Sale, now: datetime) -> bool:
    # A new sale rather than a moved window: its stock and everybody's limit are fresh.
    ends = {"when_over": sale.ends_at, "when_begun": sale.starts_at}
    return entry.renewed in ends and ends[entry.renewed] <= now


def _sell(sale: Sale, buyers: Iterable[int]) -> None:
    """Sell a unit to each, as to any buyer; without a payment provider nobody has paid yet."""
    for buyer in buyers:
        bought = buy(sale.pk, buyer, uuid4(), 1)
        with suppress(PaymentUnknown):
            payments.pay(Order.objects.get(pk=bought.order.pk))
