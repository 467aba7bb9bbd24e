"""The demo's API for load tests: synthetic buyers, fresh sales, figures, snapshots."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from decimal import Decimal
from itertools import chain
from typing import Any

from django.conf import settings
from django.contrib.auth import login
from django.contrib.auth.models import User
from django.contrib.sessions.backends.db import SessionStore
from django.core.exceptions import ValidationError
from django.db import DEFAULT_DB_ALIAS, connections
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse

from inventory import services
from inventory.models import Reservation
from inventory.selling.strategies import CLASSES, DEFAULT
from lab.demo import metrics_export
from lab.demo.buyers import create_synthetic_buyers
from lab.proof import provider_ledger, snapshot
from shop.api import requests
from shop.api.requests import api
from shop.api.views import as_json
from shop.catalogue.models import Sale
from shop.catalogue.sales import open_sale
from shop.messages import Refusal
from shop.orders.models import Order
from shop.payments.provider import PaymentUnknown

MOST_SYNTHETIC_BUYERS = 20_000
"""In one call."""

MOST_UNITS = 1_000_000
LONGEST = 24 * 60 * 60
"""Seconds until a sale opens, or to pay in it."""

PRICE = Decimal(999)


@contextmanager
def past_the_pool() -> Iterator[None]:
    """Ask the database on a connection of one's own: for those of the pool all buyers are in line,
    and figures are wanted most when that line is long.
    """
    pooled = connections[DEFAULT_DB_ALIAS]
    own = pooled.copy()
    own.settings_dict["OPTIONS"] = {**own.settings_dict["OPTIONS"], "pool": False}
    connections[DEFAULT_DB_ALIAS] = own
    try:
        yield
    finally:
        own.close()
        connections[DEFAULT_DB_ALIAS] = pooled


@api("POST")
def make_buyers(request: HttpRequest) -> HttpResponse:
    """Create synthetic buyers for a load test."""
    count = requests.whole_number(requests.body(request), "count", "invalid_request")
    if not 1 <= count <= MOST_SYNTHETIC_BUYERS:
        raise Refusal("invalid_request")
    return as_json({"tokens": create_synthetic_buyers(count)}, status=201)


@api("POST")
def make_session(request: HttpRequest) -> HttpResponse:
    """Sign a synthetic buyer in: they have no password, and load tests open their pages too."""
    buyer = User.objects.filter(pk=requests.buyer(request)).first()
    if buyer is None:
        raise Refusal("unauthorized")
    request.session = SessionStore()
    login(request, buyer)
    request.session.save()
    cookie = f"{settings.SESSION_COOKIE_NAME}={request.session.session_key}"
    return as_json({"cookie": cookie}, status=201)


@api("GET")
def list_strategies(request: HttpRequest) -> HttpResponse:
    """Every way of selling, the default first."""
    return as_json(
        {
            "strategies": [
                {
                    "name": name,
                    "safe": kind.safe,
                    "fenced": kind.fenced,
                    "summary": kind.summary,
                }
                for name, kind in sorted(CLASSES.items(), key=lambda each: each[0] != DEFAULT)
            ]
        }
    )


@api("POST")
def make_sale(request: HttpRequest) -> HttpResponse:
    """Open a fresh sale, with an item of its own."""
    document = requests.body(request)
    strategy = document.get("strategy", DEFAULT)
    if strategy not in list(CLASSES):
        raise Refusal("invalid_request")
    try:
        sale = open_sale(
            stock=_within(document, "stock", 100, MOST_UNITS),
            price=PRICE,
            limit=_within(document, "limit", 1, MOST_UNITS, least=1),
            strategy=strategy,
            starts_in=_seconds(document, "starts_in", 0),
            hold=_seconds(document, "hold", 900),
        )
    except ValidationError:
        raise Refusal("invalid_request") from None
    return as_json({"sale": sale.pk, "item": sale.item_id}, status=201)


@api("POST")
def restock_sale(request: HttpRequest, sale: int) -> HttpResponse:
    """Add units to a sale's item."""
    units = _within(requests.body(request), "units", 1, MOST_UNITS, least=1)
    level = services.restock(_sale(sale).item_id, units)
    return as_json({"available": level.available})


@api("GET")
def show_figures(request: HttpRequest, sale: int) -> HttpResponse:
    """What a sale has come to, and what the web processes have counted."""
    with past_the_pool():
        return as_json(_figures(sale, _sales(request, sale)))


def _figures(sale: int, sales: list[int]) -> dict[str, Any]:
    found, item, counted = _sale(sale), snapshot.read_item(sale), metrics_export.read()
    return {
        "sale": sale,
        "item": found.item_id,
        "strategy": found.strategy,
        "total": item.total,
        "available": item.available,
        "held": item.held,
        "confirmed": item.confirmed,
        "ledger_sum": item.ledger_sum,
        "fence": item.fence,
        "oversold": max(0, item.held + item.confirmed - item.total),
        "purchases": Reservation.objects.filter(scope=sale).count(),
        "owed": snapshot.owed(sales),
        "processes": counted.processes,
        "degraded": counted.degraded,
        "counters": dict(counted.counters),
    }


@api("GET")
def show_snapshot(request: HttpRequest, sale: int) -> StreamingHttpResponse:
    """All tables of a sale from one moment, for ``loadtest.checker``."""
    lines = snapshot.lines(_sales(request, sale))
    # The first line is asked for here, where a database that is away can still be answered.
    first = next(lines)
    return StreamingHttpResponse(chain([first], lines), content_type="application/x-ndjson")


@api("GET")
def show_ledger(request: HttpRequest, sale: int) -> StreamingHttpResponse:
    """What the payment provider moved for a sale's orders, for ``loadtest.checker``."""
    sales = _sales(request, sale)
    orders = Order.objects.filter(lines__sale__in=sales).values_list("pk", flat=True)
    try:
        lines = provider_ledger.lines(set(orders))
    except PaymentUnknown:
        raise Refusal("busy") from None
    return StreamingHttpResponse(lines, content_type="application/x-ndjson")


def _sale(pk: int) -> Sale:
    found = Sale.objects.filter(pk=pk).first()
    if found is None:
        raise Refusal("not_found")
    return found


def _sales(request: HttpRequest, sale: int) -> list[int]:
    """The sale, and those of the query's `beside`, which carts were filled from as well."""
    beside = [word for word in request.GET.get("beside", "").split(",") if word]
    if not all(word.isdecimal() and len(word) < 19 for word in beside):
        raise Refusal("invalid_request")
    return [_sale(pk).pk for pk in (sale, *map(int, beside))]


def _within(document: dict[str, Any], name: str, default: int, most: int, least: int = 0) -> int:
    if name not in document:
        return default
    value = requests.whole_number(document, name, "invalid_request")
    if not least <= value <= most:
        raise Refusal("invalid_request")
    return value


def _seconds(document: dict[str, Any], name: str, default: float) -> timedelta:
    value = document.get(name, default)
    if type(value) not in (int, float) or not 0 <= value <= LONGEST:
        raise Refusal("invalid_request")
    return timedelta(seconds=value)
