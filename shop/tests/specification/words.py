"""Which text of the shop belongs where, in the language of who reads it; and how amounts look."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from django.utils.functional import Promise
from django.utils.translation import gettext, override

from shop.mails import rendering
from shop.pages import labels
from shop.refusals import MAY_COME_BACK, PROBLEMS
from shop.specification.order import AWAITING, Money, Order, Sale
from shop.specification.shop import Shop

Text = str | Promise

ABOUT_SALE = {
    "A & <B>": "The first.",
    "Phone": "The classic of every sale: list price 1999, on sale at 999.",
    "Gamma": "The third.",
}
CHINESE = {
    "A & <B>": "甲 & <乙>",
    "Gamma": "丙",
    "The first.": "第一个。",
    "The third.": "第三个。",
}
"""What products are called, which no catalogue translates."""
SALE, SHELVES = labels.LABELS["sale_status"], labels.LABELS["shelf"]
BOUGHT_OR_NOT = (
    "We cannot tell yet whether your order was placed. Press the button again to check; "
    "it cannot place a second order."
)
FEWER_LEFT = "You can buy at most %(left)s more in this sale."
SOME_UNPAID = (
    "There are not enough items left right now. Some orders are still unpaid; "
    "items that are not paid for in time go back on sale."
)
ON_PAGES: dict[str, Text] = {code: problem.title for code, problem in PROBLEMS.items()} | {
    "idempotency_key_reused": "This page was out of date. Please try again.",
    "outcome_unknown": (
        "The payment provider has not answered yet. Please try again in a moment. "
        "You will not be charged or refunded twice."
    ),
}
"""Refusals by their code; of a purchase without an outcome, pages say `BOUGHT_OR_NOT`."""


class Texts(NamedTuple):
    """What the shop calls orders, by status or by kind of event or mail."""

    order: Mapping[str, Promise]
    about: Mapping[str, Promise]
    history: Mapping[str, Promise]
    mails: Mapping[str, tuple[Promise, Promise]]


def texts(*, payments: bool) -> Texts:
    """Return the texts of a shop that takes payments, or none."""
    other_labels = {} if payments else labels.WITHOUT_PAYMENTS
    other_mails = {} if payments else rendering.WITHOUT_PAYMENTS
    subjects = ("order_status", "order_about", "order_event")
    named = [labels.LABELS[name] | other_labels.get(name, {}) for name in subjects]
    mails = {str(kind): each for kind, each in (rendering.TEXTS | other_mails).items()}
    return Texts(named[0], named[1], named[2], mails)


WHY = "You receive this email because of your order with us."
TWICE = labels.SCRIPT["safe_to_click_twice"]
UNPAID = MAY_COME_BACK
OVERDUE = {
    "expiry": (60, "reservations are held past their deadline"),
    "payment": (900, "payments have been pending for too long"),
    "refund": (900, "refunds have been pending for too long"),
    "refused": (-1, "refunds were refused by the provider"),
    "outbox": (300, "messages of the outbox wait"),
    "mail": (300, "mails wait"),
}
"""What the audit reports of things that have waited for more than so many seconds."""
DECIMALS = {"CNY": 2, "EUR": 2, "JPY": 0, "KWD": 3}
SYMBOLS = {"CNY": "CN¥", "EUR": "€", "JPY": "¥", "KWD": "KWD"}
CHINESE_SYMBOLS = {"CNY": "¥", "EUR": "€", "JPY": "JP¥", "KWD": "KWD"}


def said(text: Text, *, chinese: bool, **figures: object) -> str:
    """Return a text in one of the two languages, with its figures."""
    with override("zh-hans" if chinese else "en"):
        written = str(text) if isinstance(text, Promise) else gettext(text)
    if chinese:
        written = CHINESE.get(written, written)
    return written % figures if figures else written


def pending_since(shop: Shop, sale: Sale | None = None) -> dict[str, list[int]]:
    """Return since when each thing waits that operators watch; perhaps of one sale's orders."""
    orders = [o for o in shop.orders if sale in (None, *(line.sale for line in o.lines))]
    late = [o for o in orders if o.status == AWAITING and o.pay_before < shop.now]
    lines = [(o, line) for o in late for line in o.lines if line.kept]
    refunds = [refund for order in orders for refund in order.refunds]
    return {
        "expiry": [o.pay_before for o, line in lines if sale in (None, line.sale)],
        "payment": [p.begun for o in orders for p in o.payments if p.state == "pending"],
        "refund": [refund.begun for refund in refunds if refund.state == "pending"],
        "refused": [refund.begun for refund in refunds if refund.state == "failed"],
    }


def disputed(shop: Shop) -> list[tuple[Order, Money]]:
    """Return payments that were taken although the provider has called them failed."""
    found = [(order, each) for order in shop.orders for each in order.payments]
    return [(o, each) for o, each in found if (each.state, each.there) == ("failed", "done")]


def overdue(now: int, waits: Mapping[str, list[int]]) -> Iterator[str]:
    """Say what the audit reports of things that wait, each since when."""
    for kind, times in waits.items():
        seconds, what = OVERDUE[kind]
        if count := sum(since < now - seconds for since in times):
            yield f"{count} {what}"


def listed_in(sale: Sale) -> str:
    """Return the currency of a product's list price: that of its sale may be another."""
    return "EUR" if sale.currency == "KWD" else sale.currency


def figure(amount: int, currency: str, *, grouped: bool = True) -> str:
    """Write an amount: 1,999.00 for people, 1999.00 for operators."""
    digits = DECIMALS[currency]
    whole, rest = divmod(amount, 10**digits)
    return f"{whole:{',' if grouped else ''}}" + (f".{rest:0{digits}}" if digits else "")


def money(amount: int, currency: str, *, chinese: bool = False) -> str:
    """Return an amount as a page shows it."""
    return (CHINESE_SYMBOLS if chinese else SYMBOLS)[currency] + figure(amount, currency)
