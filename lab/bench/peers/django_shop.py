"""A plain Django shop: `gunicorn lab.bench.peers.django_shop`.

Lock the sale's row with `select_for_update`, check, write, commit.
"""

from __future__ import annotations

import json
from typing import Any
from uuid import UUID

from django.core.wsgi import get_wsgi_application
from django.db import models, transaction
from django.http import HttpRequest, JsonResponse
from django.urls import path

from lab.bench.peers import common

application = get_wsgi_application()  # sets Django up, which models need


class Sale(models.Model):
    """A product on sale, and its stock."""

    price = models.BigIntegerField()
    stock = models.BigIntegerField()
    available = models.BigIntegerField()

    class Meta:
        app_label, db_table, managed = "peer", "peer_sale", False


class Reservation(models.Model):
    """Units of a buyer."""

    sale = models.ForeignKey(Sale, on_delete=models.PROTECT)
    buyer_id = models.BigIntegerField()
    key = models.UUIDField()
    quantity = models.PositiveIntegerField()

    class Meta:
        app_label, db_table, managed = "peer", "peer_reservation", False


class Order(models.Model):
    """The order of a reservation."""

    reservation = models.OneToOneField(Reservation, on_delete=models.PROTECT)
    amount = models.BigIntegerField()
    created = models.DateTimeField(auto_now_add=True)

    class Meta:
        app_label, db_table, managed = "peer", "peer_order", False


def buy(request: HttpRequest, sale: int) -> JsonResponse:
    """Buy units of a sale."""
    try:
        buyer = common.buyer_of(request.headers.get("Authorization", ""))
        key = UUID(request.headers["Idempotency-Key"])
        quantity = int(json.loads(request.body)["quantity"])
    except common.BadToken:
        return _problem(common.UNAUTHORIZED)
    with transaction.atomic():
        row = Sale.objects.select_for_update().filter(pk=sale).first()
        if row is None:
            return _problem(common.NOT_FOUND)
        earlier = Order.objects.select_related("reservation").filter(
            reservation__buyer_id=buyer, reservation__key=key
        )
        if order := earlier.first():
            same = (order.reservation.sale_id, order.reservation.quantity) == (sale, quantity)
            return _answer(order, 200) if same else _problem(common.KEY_REUSED)
        if row.available < quantity:
            return _problem(common.SOLD_OUT)
        row.available -= quantity
        row.save(update_fields=["available"])
        reservation = Reservation.objects.create(
            sale=row, buyer_id=buyer, key=key, quantity=quantity
        )
        order = Order.objects.create(reservation=reservation, amount=row.price * quantity)
    return _answer(order, 201)


def _answer(order: Order, status: int) -> JsonResponse:
    of = order.reservation
    document = common.order(order.pk, of.sale_id, of.quantity, order.amount, order.created)
    return JsonResponse(document, status=status)


def _problem(problem: dict[str, Any]) -> JsonResponse:
    return JsonResponse(problem, status=problem["status"], content_type=common.PROBLEM)


def ready(request: HttpRequest) -> JsonResponse:
    """Answer the process supervisor."""
    return JsonResponse({})


urlpatterns = [path("api/v1/sales/<int:sale>/orders", buy), path("readyz", ready)]
