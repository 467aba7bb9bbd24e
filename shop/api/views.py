"""The API's calls. Each parses, calls one service, and renders."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

from django.contrib.auth import authenticate
from django.http import HttpRequest, HttpResponse

from inventory import failpoints, services
from inventory.models import Item
from shop.accounts import tokens
from shop.api import requests
from shop.api.problems import answer
from shop.api.requests import api
from shop.catalogue.sale_cache import NoSuchSale, sale_cache
from shop.checkout import order_actions
from shop.checkout.cart import check_out
from shop.checkout.purchase import MOST_UNITS, Bought, buy
from shop.checkout.rate_limit import limiter
from shop.messages import Refusal
from shop.orders import Opened, Part
from shop.orders.models import Order


def number(amount: Decimal | int) -> int | float:
    """An amount as a JSON number; whole ones without a point."""
    whole = int(amount)
    return whole if whole == amount else float(amount)


def as_json(document: Any, status: int = 200) -> HttpResponse:
    """A JSON answer."""
    return answer(json.dumps(document).encode(), status, "application/json")


def order_document(order: Order | Opened) -> dict[str, Any]:
    """An order as the API shows it."""
    return {
        "id": order.pk,
        "sale": order.sale_id,
        "quantity": order.quantity,
        "amount": number(order.amount),
        "status": order.status,
        "pay_before": order.pay_before.isoformat(),
        "created": order.created.isoformat(),
        "refunded": number(order.refunded),
        "lines": [
            {
                "sale": line.sale_id,
                "quantity": line.quantity,
                "returned": line.returned,
                "amount": number(line.amount),
            }
            for line in order.each_line()
        ],
    }


@api("POST")
def place_order(request: HttpRequest, sale: int) -> HttpResponse:
    """Buy in a sale: 201 with the order, 200 with the same order for the same key."""
    buyer = requests.buyer(request)
    if not limiter().allows(buyer):
        raise Refusal("rate_limited")
    key = requests.idempotency_key(request)
    quantity = requests.whole_number(requests.body(request), "quantity", "invalid_quantity")
    return _bought(buy(sale, buyer, key, quantity))


@api("POST")
def place_cart(request: HttpRequest) -> HttpResponse:
    """Buy in several sales, all or nothing: 201 with the order, 200 with it for the same key."""
    buyer = requests.buyer(request)
    if not limiter().allows(buyer):
        raise Refusal("rate_limited")
    key = requests.idempotency_key(request)
    return _bought(check_out(buyer, key, requests.cart(requests.body(request))))


@api("GET")
def show_sale(request: HttpRequest, sale: int) -> HttpResponse:
    """A sale: window, price, limit, what is available, and the server's time."""
    try:
        notice = sale_cache().refresh(sale)
    except NoSuchSale:
        raise Refusal("not_found") from None
    available = Item.objects.values_list("available", flat=True).get(pk=notice.item)
    status = notice.closed() or ("open" if available else "sold_out")
    return as_json(
        {
            "id": sale,
            "item": notice.item,
            "price": number(notice.price),
            "limit": notice.limit,
            "starts_at": notice.starts_at.isoformat(),
            "ends_at": notice.ends_at.isoformat(),
            "status": status,
            "available": available,
            "may_come_back": status == "sold_out" and services.may_come_back(notice.item),
            "server_time": notice.now().isoformat(),
        }
    )


@api("GET")
def show_order(request: HttpRequest, order: int) -> HttpResponse:
    """An order, to its buyer only."""
    return as_json(order_document(_own_order(request, order)))


@api("POST")
def pay_order(request: HttpRequest, order: int) -> HttpResponse:
    """Pay an order; it still awaits its payment while the provider works on that."""
    return as_json(order_document(order_actions.pay(_own_order(request, order))))


@api("POST")
def cancel_order(request: HttpRequest, order: int) -> HttpResponse:
    """Give up an order that was not paid, or a part of it."""
    found = _own_order(request, order)
    return as_json(order_document(order_actions.cancel(found, _part(request))))


@api("POST")
def refund_order(request: HttpRequest, order: int) -> HttpResponse:
    """Take back a paid order, or a part of it."""
    found = _own_order(request, order)
    return as_json(order_document(order_actions.refund(found, _part(request))))


@api("POST")
def make_token(request: HttpRequest) -> HttpResponse:
    """Exchange a user name and a password for a buyer token."""
    document = requests.body(request)
    user = authenticate(
        request,
        username=requests.text(document, "username"),
        password=requests.text(document, "password"),
    )
    if user is None:
        raise Refusal("wrong_credentials")
    return as_json({"token": tokens.issue(user.pk), "expires_in": tokens.LIFETIME}, status=201)


def _bought(bought: Bought) -> HttpResponse:
    failpoints.hit(failpoints.BEFORE_ANSWER)
    return as_json(order_document(bought.order), status=200 if bought.replayed else 201)


def _own_order(request: HttpRequest, order: int) -> Order:
    buyer = requests.buyer(request)
    # Another buyer's order is not found, rather than forbidden: ids are not to be counted.
    found = (
        Order.objects.filter(pk=order, buyer=buyer).prefetch_related("lines__reservation").first()
    )
    if found is None:
        raise Refusal("not_found")
    return found


def _part(request: HttpRequest) -> Part | None:
    """The part that the body speaks of; None for all of it.

    A part needs a key of its own: two requests for one unit may be one wish or two.
    """
    document = requests.body(request)
    if "quantity" not in document:
        return None
    quantity = requests.whole_number(document, "quantity", "invalid_quantity")
    if not 1 <= quantity <= MOST_UNITS:
        raise Refusal("invalid_quantity")
    sale = None
    if "sale" in document:
        sale = requests.whole_number(document, "sale", "invalid_request")
    return Part(quantity, requests.idempotency_key(request), sale)
