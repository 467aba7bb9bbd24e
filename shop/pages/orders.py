"""A buyer's orders."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast
from uuid import uuid4

import segno
from django.conf import settings
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.contrib.auth.views import redirect_to_login
from django.core.paginator import Paginator
from django.db import InterfaceError, OperationalError
from django.db.models import F, Sum
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils.translation import gettext
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_safe

from inventory.postgresql.base import may_have_effects
from shop import orders, payments
from shop.accounts.addresses import is_mailable
from shop.accounts.models import User
from shop.catalogue.sales import database_time
from shop.mails import rendering
from shop.operating import headers, outage
from shop.orders import Part
from shop.orders.details import labelled
from shop.orders.models import Order, OrderLine
from shop.orders.totals import fees_given_back
from shop.pages import refusals
from shop.pages.forms import PartForm
from shop.payments.models import Payment
from shop.payments.provider import provider
from shop.refusals import Refusal

ORDERS_PER_PAGE = 20


@require_safe
@never_cache
@login_required
def mine(request: HttpRequest) -> HttpResponse:
    """List the buyer's orders, newest first."""
    found = Order.objects.filter(buyer=request.user.pk).with_lines()
    page = Paginator(found.order_by("-pk"), ORDERS_PER_PAGE).get_page(request.GET.get("page"))
    return render(request, "shop/orders.html", {"page": page})


@require_safe
@never_cache
@login_required
def order(request: HttpRequest, order: int) -> HttpResponse:
    """Show an order and the actions that its state allows."""
    found = _own(request, order)
    now = database_time()
    status = found.status
    if status == Order.Status.AWAITING_PAYMENT and found.pay_before <= now:
        status = Order.Status.EXPIRED  # as paying would say, before the sweep has run
    pays = bool(settings.PAYMENT_PROVIDER)
    progress = payments.progress(found) if pays else payments.NONE
    gets_mails = is_mailable(cast("User", request.user).email)
    under_way = not pays or progress.state in {"action", "processing"}
    context = {
        "order": found,
        "details": labelled(found),
        "invoices": found.invoices.all(),
        "status": status,
        "now": now,
        "under_way": status == Order.Status.AWAITING_PAYMENT and under_way,
        "pays": pays,
        "payment": progress.state if status == Order.Status.AWAITING_PAYMENT else "none",
        "key": uuid4(),
        "notices": [] if gets_mails else rendering.notices(found),
    }
    return render(request, "shop/order.html", context)


@require_http_methods(["GET", "HEAD", "POST"])
@never_cache
def pay(request: HttpRequest, order: int) -> HttpResponse:
    """Begin to pay an order, or show what the buyer has to do for it."""
    if request.method != "POST":
        return _show_action(request, order)
    back = request.build_absolute_uri(reverse("order", args=[order]))
    answer = _change(request, order, lambda found: payments.pay(found, back))
    own = Order.objects.filter(buyer=request.user.pk, pk=order).first()
    if own is not None and payments.progress(own).state == "action":
        # Not to the provider's page itself: our pages' forms may lead to none of another host.
        return redirect("pay", order)
    return answer


@login_required
def _show_action(request: HttpRequest, order: int) -> HttpResponse:
    """Lead to the provider's page, or show its QR code or its script's form."""
    found = _own(request, order)
    action = payments.progress(found).action
    if action is None:
        return redirect(found)
    data = action.get("data", "")
    context = {
        "order": found,
        "now": database_time(),
        "action": action,
        "code": segno.make(data, error="m").svg_inline(scale=6, border=4, light="#fff")
        if data
        else "",
        "provider": provider(),
        "return_url": request.build_absolute_uri(reverse("order", args=[order])),
    }
    response = render(request, "shop/payment.html", context)
    if action["kind"] == "script":
        for name, value in headers.with_sources(provider().sources).items():
            response.headers[name] = value
    return response


@require_http_methods(["GET", "HEAD", "POST"])
@never_cache
def cancel(request: HttpRequest, order: int) -> HttpResponse:
    """Ask whether to cancel an unpaid order or a part of it; on POST, cancel it."""
    if request.method != "POST":
        return _ask(request, order, "cancel", Order.Status.AWAITING_PAYMENT)
    return _change(request, order, lambda found: orders.cancel(found, _part(request)))


@require_http_methods(["GET", "HEAD", "POST"])
@never_cache
def refund(request: HttpRequest, order: int) -> HttpResponse:
    """Ask whether to return a paid order or a part of it for a refund; on POST, return it."""
    if request.method != "POST":
        return _ask(request, order, "refund", Order.Status.PAID)
    return _change(request, order, lambda found: payments.refund(found, _part(request)))


def _ask(request: HttpRequest, order: int, act: str, status: str) -> HttpResponse:
    """Show what would be given back, with a button; nothing is changed."""
    if not request.user.is_authenticated:
        return redirect_to_login(request.get_full_path())
    found = _own(request, order)
    try:
        part = _part(request)
    except Refusal as refusal:
        messages.error(request, _why(refusal.code))
        return redirect(found)
    lines = [line for line in found.lines.all() if line.live]
    if part is not None:
        lines = [line for line in lines if line.sale_id == part.sale and line.live >= part.quantity]
    if found.status != status or not lines:
        return redirect(found)
    units = [(part.quantity if part else line.live, line) for line in lines]
    names = [f"{quantity} × {line.sale.local_name}" for quantity, line in units]
    context = {
        "order": found,
        "act": act,
        "part": part,
        "contents": ", ".join(names),
        "back": _money_back(found, part, lines[0]) if act == "refund" else 0,
    }
    return render(request, "shop/confirm.html", context)


def _money_back(order: Order, part: Part | None, line: OrderLine) -> int:
    """Return what the buyer would get back, in minor units."""
    taken = order.payments.filter(state=Payment.State.CAPTURED)
    left: int = taken.aggregate(left=Sum(F("amount") - F("owed_back")))["left"] or 0
    if part is not None and part.quantity < sum(ordered.live for ordered in order.lines.all()):
        fees = fees_given_back(order.fee_amount, whole=False, handed_over=False)
        return min(line.price * part.quantity + fees, left)
    fees = fees_given_back(order.fee_amount, whole=True, handed_over=False)
    return left - max(order.fee_amount - fees - order.conceded, 0)


def _part(request: HttpRequest) -> Part | None:
    sent = request.POST if request.method == "POST" else request.GET
    if "quantity" not in sent:
        return None
    form = PartForm(sent)
    if not form.is_valid():
        raise Refusal(form.refusal())
    wanted = form.cleaned_data
    return Part(wanted["quantity"], wanted["key"], wanted["sale"])


def _own(request: HttpRequest, order: int) -> Order:
    # Another buyer's order is not found rather than forbidden, which hides how many there are.
    own = Order.objects.filter(buyer=request.user.pk).with_lines().prefetch_related("events")
    return get_object_or_404(own, pk=order)


def _change(request: HttpRequest, order: int, change: Callable[[Order], Order]) -> HttpResponse:
    if not request.user.is_authenticated:
        # Back to the order's page after the sign-in: this address cannot be opened.
        return redirect_to_login(reverse("order", args=[order]))
    own = Order.objects.filter(buyer=request.user.pk).for_change()
    found = get_object_or_404(own, pk=order)
    may_have_effects.set(False)
    try:
        change(found)
    except Refusal as refusal:
        messages.error(request, _why(refusal.code))
    except (OperationalError, InterfaceError) as error:
        messages.error(request, _why(outage.refusal(error).code))
    return redirect(found)


def _why(code: str) -> str:
    if code == "outcome_unknown":
        return gettext(
            "It is not known yet whether that was done. Please try again in a moment. "
            "You will not be charged or refunded twice."
        )
    return refusals.message(code)
