"""The mails about an order; only in the demo, which sends none."""

from __future__ import annotations

from django.conf import settings
from django.contrib.auth.decorators import login_required
from django.db.models import QuerySet
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.views.decorators.cache import never_cache
from django.views.decorators.clickjacking import xframe_options_sameorigin
from django.views.decorators.http import require_safe

from shop import headers
from shop.mails.models import Mail
from shop.mails.rendering import letter
from shop.orders.models import Order


@require_safe
@never_cache
@login_required
def about(request: HttpRequest, order: int) -> HttpResponse:
    """Show all mails about an order."""
    found = _order(request, order)
    mails = _mails(found).order_by("pk")
    letters = [(mail, letter(mail)) for mail in mails]
    return render(request, "shop/mails.html", {"order": found, "letters": letters})


@require_safe
@never_cache
@login_required
@xframe_options_sameorigin  # the page above shows it in a frame, which isolates its styles
def one(request: HttpRequest, order: int, kind: str) -> HttpResponse:
    """Show one mail as a mail program does."""
    mail = get_object_or_404(_mails(_order(request, order)), kind=kind)
    # Its links must open outside the frame.
    html = letter(mail).html.replace("<head>", '<head><base target="_top">', 1)
    return HttpResponse(html, headers={headers.POLICY: headers.MAIL})


def _order(request: HttpRequest, order: int) -> Order:
    if not settings.SHOP_SHOW_MAILS:
        raise Http404
    orders = Order.objects.all()
    if not getattr(request.user, "is_staff", False):
        orders = orders.filter(buyer=request.user.pk)
    return get_object_or_404(orders, pk=order)


def _mails(order: Order) -> QuerySet[Mail]:
    mails = Mail.objects.filter(order=order).select_related("order__buyer")
    return mails.prefetch_related("order__lines__sale__product")
