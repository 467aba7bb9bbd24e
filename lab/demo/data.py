"""The demo's catalogue and logins. Filling it in again adds only what is missing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import uuid4

from django.conf import settings
from django.db.models.functions import Now
from django.utils.translation import gettext_noop

from lab.strategies.choice import open_sale
from shop import payments
from shop.accounts import tokens
from shop.accounts.models import User
from shop.catalogue.models import Product, ProductText, Sale
from shop.catalogue.sales import database_time
from shop.checkout import buy
from shop.orders.models import Order
from shop.payments.provider import PaymentUnknown

NAME = gettext_noop("Flash sale")
"""The default of `SHOP_NAME`, which the lab's catalogue translates."""

NOW = timedelta(0)
SOON = timedelta(minutes=5)
LONG = timedelta(minutes=45)

RENEWAL = 60
"""Seconds between two looks for sales that are over."""


@dataclass(frozen=True, slots=True)
class Login:
    """A user of the demo."""

    role: str
    username: str
    password: str


LOGINS = (
    Login("admin", "admin", "demo-admin"),
    Login("buyer", "buyer", "demo-buyer"),
)


@dataclass(frozen=True, slots=True)
class Entry:
    """A product and its sale in the demo.

    Attributes:
        texts: name and description by language.
        list_price, price: in minor units.
        starts_in: counted from when the catalogue is filled in; negative for a past sale.
        renewed: when a new sale is opened: "when_over", "when_begun" (so that there is always a
            countdown to see) or "never".
        sold: units sold in advance, one per buyer.
    """

    slug: str
    texts: Mapping[str, tuple[str, str]]
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
        texts={
            "en": (
                "Classic phone",
                "The classic flash sale: list price 1999, sale price 999, ten units.",
            ),
            "zh-hans": ("经典款手机", "秒杀经典：原价 1999，抢购价 999，仅十台。"),
        },
        list_price=199_900,
        price=99_900,
        stock=10,
    ),
    Entry(
        slug="headphones",
        texts={
            "en": ("Headphones", "Plenty in stock, and up to three per buyer."),
            "zh-hans": ("头戴式耳机", "库存充足，每人最多可购三副。"),
        },
        list_price=89_900,
        price=29_900,
        stock=5000,
        limit=3,
    ),
    Entry(
        slug="watch",
        texts={
            "en": (
                "Smart watch",
                "Heart rate, maps and music on your wrist. Fifty units, one per buyer.",
            ),
            "zh-hans": ("智能手表", "心率、地图、音乐，一腕掌握。共五十只，每人限购一只。"),
        },
        list_price=129_900,
        price=59_900,
        stock=50,
        starts_in=SOON,
        lasts=SOON,
        renewed="when_begun",
    ),
    Entry(
        slug="lamp",
        texts={
            "en": ("Desk lamp", "Warm, dimmable light for late evenings. Up to two per buyer."),
            "zh-hans": ("台灯", "暖光可调，适合深夜阅读。每人最多可购两盏。"),
        },
        list_price=19_900,
        price=9_900,
        stock=200,
        limit=2,
        strategy="row_lock",
    ),
    Entry(
        slug="espresso",
        texts={
            "en": ("Espresso set", "A pot and two cups, for the hob."),
            "zh-hans": ("意式咖啡套装", "摩卡壶一只，配两只杯子。"),
        },
        list_price=49_900,
        price=24_900,
        stock=5,
        sold=5,
    ),
    Entry(
        slug="travel-mug",
        texts={
            "en": ("Travel mug", "Keeps coffee hot on the way to work."),
            "zh-hans": ("随行杯", "上班路上，咖啡不凉。"),
        },
        list_price=7_900,
        price=3_900,
        stock=100,
        starts_in=-timedelta(days=2),
        lasts=timedelta(days=1),
        renewed="never",
    ),
)


def create_logins() -> None:
    """Create the demo's users if they are missing."""
    for login in LOGINS:
        if User.objects.filter(username=login.username).exists():
            continue
        create = (
            User.objects.create_superuser if login.role == "admin" else User.objects.create_user
        )
        create(login.username, f"{login.username}@example.com", login.password)


def fill_catalogue() -> list[Sale]:
    """Create the products and sales that are missing, and renew the sales that are over.

    Returns:
        The sale of each entry.
    """
    # In reverse, since the home page shows the newest sale first.
    return [_sale_of(entry) for entry in reversed(CATALOGUE)][::-1]


def _sale_of(entry: Entry) -> Sale:
    product = _product_of(entry)
    latest = Sale.objects.filter(product=product, listed=True).order_by("-starts_at").first()
    if latest is not None and not _to_be_renewed(entry, latest, database_time()):
        return latest
    # The front shows the seeded shop: one sale of each product, and of the watch the next one too.
    Sale.objects.filter(product=product, listed=True, ends_at__lte=Now()).update(listed=False)
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


def _product_of(entry: Entry) -> Product:
    first = settings.LANGUAGE_CODE if settings.LANGUAGE_CODE in entry.texts else "en"
    name, description = entry.texts[first]
    product, created = Product.objects.get_or_create(
        slug=entry.slug,
        defaults={"name": name, "description": description, "list_price": entry.list_price},
    )
    if created:
        ProductText.objects.bulk_create(
            ProductText(product=product, language=language, name=name, description=description)
            for language, (name, description) in entry.texts.items()
            if language != first
        )
    return product


def _to_be_renewed(entry: Entry, sale: Sale, now: datetime) -> bool:
    # A new sale, rather than a moved window, resets the stock and every buyer's limit.
    ends = {"when_over": sale.ends_at, "when_begun": sale.starts_at}
    return entry.renewed in ends and ends[entry.renewed] <= now


def _sell(sale: Sale, buyers: Iterable[int]) -> None:
    """Sell one unit per buyer; while the payment provider is down, the orders stay unpaid."""
    for buyer in buyers:
        bought = buy(sale.pk, buyer, uuid4(), 1)
        with suppress(PaymentUnknown):
            payments.pay(Order.objects.get(pk=bought.order.pk))


def create_synthetic_buyers(count: int) -> list[str]:
    """Create buyers without passwords, usable only by token.

    Args:
        count: how many.

    Returns:
        A token for each.
    """
    group = uuid4().hex[:12]
    users = User.objects.bulk_create(
        [_buyer(f"buyer-{group}-{number}") for number in range(count)], batch_size=5000
    )
    return [tokens.issue(user.pk) for user in users]


def _buyer(name: str) -> User:
    # An address each: a proof looks whether every mail goes to its buyer.
    return User(username=name, password="!", email=f"{name}@example.com")
