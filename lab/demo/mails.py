"""Pages with the mails about an order: the demo's mail server sends none on."""

from __future__ import annotations

from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.views.decorators.cache import never_cache
from django.views.decorators.clickjacking import xframe_options_sameorigin
from django.views.decorators.http import require_safe

from inventory.models import OutboxMessage
from shop.mails.rendering import Kind, letter
from shop.mails.sending import topic
from shop.operating import headers
from shop.orders.models import Order

POLICY = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'self'"
"""A mail has its styles inline, and is shown in a frame of the page of mails."""


@require_safe
@never_cache
@login_required
def about(request: HttpRequest, order: int) -> HttpResponse:
    """Show all mails about an order."""
    found = _order(request, order)
    letters = [(kind, sent, letter(kind, found)) for kind, sent in _mails(found).items()]
    return render(request, "lab/mails.html", {"order": found, "letters": letters})


@require_safe
@never_cache
@login_required
@xframe_options_sameorigin  # the page above shows it in a frame, which isolates its styles
def one(request: HttpRequest, order: int, kind: str) -> HttpResponse:
    """Show one mail as a mail program does."""
    found = _order(request, order)
    if kind not in _mails(found):
        raise Http404
    # Its links must open outside the frame.
    base = '<head><base target="_top">'
    html = letter(Kind(kind), found).html.replace("<head>", base, 1)
    return HttpResponse(html, headers={headers.POLICY: POLICY})


def _order(request: HttpRequest, order: int) -> Order:
    orders = Order.objects.with_lines().select_related("buyer")
    if not getattr(request.user, "is_staff", False):
        orders = orders.filter(buyer=request.user.pk)
    return get_object_or_404(orders, pk=order)


def _mails(order: Order) -> dict[Kind, object]:
    """Return when each mail about the order was sent, in the order in which they were due."""
    kinds = {topic(kind): kind for kind in Kind}
    messages = OutboxMessage.objects.filter(key=str(order.pk), topic__in=kinds).order_by("pk")
    return {kinds[name]: done for name, done in messages.values_list("topic", "done")}
