"""The demo's API for load tests: synthetic buyers, fresh sales, figures, snapshots."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from itertools import chain
from typing import Any

from django.conf import settings
from django.contrib.auth import login
from django.contrib.sessions.backends.db import SessionStore
from django.core.exceptions import ValidationError
from django.db import DEFAULT_DB_ALIAS, connections
from django.http import HttpRequest, StreamingHttpResponse
from msgspec.structs import asdict

from inventory import services
from inventory.models import Reservation
from inventory.redis import circuit
from lab.demo import schemas
from lab.demo.data import create_synthetic_buyers
from lab.proof import snapshot
from lab.strategies import CLASSES
from lab.strategies.choice import chosen, open_sale
from shop.accounts.models import User
from shop.api.openapi import TAGS
from shop.api.operations import JSON_LINES, Answer, Operation, Result
from shop.catalogue.models import Sale
from shop.draws.drawing import open_draw
from shop.operating import metric_files
from shop.orders.models import Order
from shop.payments.provider import PaymentUnknown
from shop.refusals import Refusal
from shop.shares import OPERATORS

TAG = "Load tests"
TAGS[TAG] = "For a load test of the demo: fresh sales, figures, snapshots."

AFTER_SALE = dict.fromkeys(
    [
        "show_sale",
        "place_order",
        "restock_sale",
        "change_terms",
        "show_figures",
        "show_snapshot",
        "show_ledger",
        "show_deliveries",
    ],
    ("sale", "sale"),
)
"""What can be done with a sale once it is made."""

LoadTest = partial(Operation, tag=TAG, share=OPERATORS)
"""An operation for load tests."""

Rows = partial(
    LoadTest,
    method="GET",
    query=schemas.FurtherSales,
    answers={200: Answer(str, "One line per row; the last says how many there were.")},
)
"""One that answers with JSON lines, for the checker of the load test."""


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


@Operation(
    method="POST",
    tag="Buyers",
    share=OPERATORS,
    body=schemas.BuyersWanted,
    answers={201: Answer(schemas.Tokens, "A token for each.")},
)
def make_buyers(request: HttpRequest, *, body: schemas.BuyersWanted) -> Result:
    """Make synthetic buyers."""
    return 201, schemas.Tokens(create_synthetic_buyers(body.count))


@Operation(
    method="POST",
    tag="Buyers",
    share=OPERATORS,
    buyer=True,
    answers={201: Answer(schemas.Session, "The cookie to send with requests for pages.")},
)
def make_session(request: HttpRequest, *, buyer: int) -> Result:
    """Sign a synthetic buyer in.

    They have no password, and load tests open their pages too.
    """
    user = User.objects.filter(pk=buyer).first()
    if user is None:
        raise Refusal("unauthorized")
    request.session = SessionStore()
    login(request, user)
    request.session.save()
    return 201, schemas.Session(f"{settings.SESSION_COOKIE_NAME}={request.session.session_key}")


@LoadTest(method="GET", answers={200: Answer(schemas.Strategies, "All of them.")})
def list_strategies(request: HttpRequest) -> Result:
    """List the ways of selling, the default first."""
    kinds = CLASSES.items()
    return 200, schemas.Strategies(
        [schemas.Strategy(name, kind.safe, kind.fenced, kind.summary) for name, kind in kinds]
    )


@LoadTest(
    method="POST",
    body=schemas.SaleWanted,
    answers={201: Answer(schemas.SaleMade, "Its ids.", AFTER_SALE)},
)
def make_sale(request: HttpRequest, *, body: schemas.SaleWanted) -> Result:
    """Open a fresh sale, with an item of its own."""
    terms: dict[str, Any] = {
        "stock": body.stock,
        "price": body.price,
        "limit": body.limit,
        "starts_in": timedelta(seconds=body.starts_in),
        "hold": timedelta(seconds=body.hold),
        "restock_cancelled": body.restock_cancelled,
        "restock_returned": body.restock_returned,
        "listed": False,
    }
    try:
        if lasts := timedelta(seconds=body.draw):
            sale = open_draw(**terms, lasts=lasts).sale
        else:
            sale = open_sale(
                **terms,
                strategy=body.strategy,
                lasts=snapshot.LASTS,
                action_hold=timedelta(seconds=body.action_hold),
            )
    except ValidationError:
        raise Refusal("invalid_request") from None
    return 201, schemas.SaleMade(sale.pk, sale.item_id)


@LoadTest(
    method="POST",
    body=schemas.UnitsAdded,
    answers={200: Answer(schemas.Level, "What is available now.")},
)
def restock_sale(request: HttpRequest, sale: int, *, body: schemas.UnitsAdded) -> Result:
    """Add units to a sale's item.

    Once it is answered, no buyer is refused by an older level any more.
    """
    level = services.restock(_sale(sale).item_id, body.units)
    return 200, schemas.Level(level.available)


@LoadTest(
    method="POST",
    body=schemas.TermsWanted,
    answers={200: Answer(schemas.Terms, "The terms in force after it.")},
)
def change_terms(request: HttpRequest, sale: int, *, body: schemas.TermsWanted) -> Result:
    """Change the price, the window or the pause of a sale, as its administrator does.

    Without any member, only show the terms.
    """
    try:
        after = snapshot.change(_sale(sale).pk, **body.changes())
    except ValidationError:
        raise Refusal("invalid_request") from None
    return 200, schemas.Terms(**{**asdict(after), "sale": sale})


@LoadTest(
    method="GET",
    query=schemas.FurtherSales,
    answers={200: Answer(schemas.Figures, "The figures.")},
)
def show_figures(request: HttpRequest, sale: int, *, query: schemas.FurtherSales) -> Result:
    """Show what a sale has come to.

    Stock, orders, follow-ups that are pending, and how many web processes sell.
    """
    with past_the_pool():
        return 200, _figures(sale, _sales(sale, query))


def _figures(sale: int, sales: list[int]) -> schemas.Figures:
    found, [item] = _sale(sale), snapshot.items([sale])
    web = [
        process.gauges()
        for process in metric_files.processes()
        if process.alive and process.name.endswith(".web")
    ]
    return schemas.Figures(
        sale=sale,
        item=found.item_id,
        strategy=chosen(sale),
        total=item.total,
        available=item.available,
        held=item.held,
        confirmed=item.confirmed,
        ledger_sum=item.ledger_sum,
        fence=item.fence,
        oversold=max(0, item.held + item.confirmed - item.total),
        purchases=Reservation.objects.filter(scope=sale).count(),
        pending=snapshot.pending(sales),
        # Without a folder of metrics, this process speaks for itself.
        processes=len(web) or 1,
        degraded=any(process["inventory_degraded"] for process in web) if web else circuit().open,
    )


@Rows()
def show_snapshot(request: HttpRequest, sale: int, *, query: schemas.FurtherSales) -> Result:
    """Show all tables of a sale, from one moment.

    As JSON lines, for the checker of the load test.
    """
    lines = snapshot.lines(_sales(sale, query))
    # The first line is asked for here, where a database that is away can still be answered.
    first = next(lines)
    return StreamingHttpResponse(chain([first], lines), content_type=JSON_LINES)


@Rows()
def show_ledger(request: HttpRequest, sale: int, *, query: schemas.FurtherSales) -> Result:
    """Show what the payment provider moved for a sale's orders.

    As JSON lines, for the checker of the load test; also money of orders that the shop does not
    know.
    """
    sales = snapshot.without_draws(_sales(sale, query))
    orders = Order.objects.filter(lines__sale__in=sales).values_list("pk", flat=True)
    try:
        lines = snapshot.ledger_rows(set(orders))
    except PaymentUnknown:
        raise Refusal("busy") from None
    return StreamingHttpResponse(lines, content_type=JSON_LINES)


@LoadTest(
    method="GET",
    query=schemas.FurtherSales,
    answers={200: Answer(str, "One line per mail; the last says how many there were.")},
)
def show_deliveries(request: HttpRequest, sale: int, *, query: schemas.FurtherSales) -> Result:
    """Show the mails about a sale's orders, as the mail server took them.

    As JSON lines, for the checker of the load test, including unexpected mails. Not found where
    the shop's mails go elsewhere.
    """
    try:
        lines = snapshot.delivery_lines(snapshot.without_draws(_sales(sale, query)))
    except snapshot.NoMailServer:
        raise Refusal("not_found") from None
    return StreamingHttpResponse(lines, content_type=JSON_LINES)


def _sale(pk: int) -> Sale:
    found = Sale.objects.filter(pk=pk).first()
    if found is None:
        raise Refusal("not_found")
    return found


def _sales(sale: int, query: schemas.FurtherSales) -> list[int]:
    """The sale, and those from which carts were filled as well."""
    return [_sale(pk).pk for pk in (sale, *query.further_sales)]
