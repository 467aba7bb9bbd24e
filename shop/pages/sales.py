"""The home page and the page of a sale."""

from __future__ import annotations

from uuid import UUID, uuid4

from django.contrib.auth.views import redirect_to_login
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_safe

from shop.catalogue.sales import database_time
from shop.checkout.purchase import buy
from shop.orders.models import Order
from shop.pages import offers, refusals
from shop.pages.forms import BuyForm
from shop.refusals import Refusal


@require_safe
@never_cache
def home(request: HttpRequest) -> HttpResponse:
    """Show the current, upcoming and past sales.

    The sections are the same for all visitors and cached for a second, because everyone looks at
    an opening. The template calls `shelves` when the cache is empty.
    """
    context = {"shelves": offers.shelves, "now": database_time()}
    return render(request, "shop/home.html", context)


# Never cached, so that each visit gets a new key: a click there is a new purchase, whereas a double
# click, a form sent again and a retry after a refusal repeat the key.
@require_http_methods(["GET", "HEAD", "POST"])
@never_cache
def sale(request: HttpRequest, sale: int) -> HttpResponse:
    """Show a sale (GET) or buy in it (POST)."""
    if request.method != "POST":
        return _show(request, sale, uuid4(), BuyForm())
    if not request.user.is_authenticated:
        return redirect_to_login(request.path)
    form = BuyForm(request.POST)
    try:
        if not form.is_valid():
            raise Refusal(form.refusal())
        key, quantity = form.cleaned_data["key"], form.cleaned_data["quantity"]
        bought = buy(sale, request.user.pk, key, quantity, form.details())
        return redirect("order", bought.order.pk)
    except Refusal as refusal:
        return _refuse(request, sale, form, refusal)


def _refuse(request: HttpRequest, sale: int, form: BuyForm, why: Refusal) -> HttpResponse:
    """Show the page with the refusal, and with the same key if a retry may use it."""
    code = why.code
    spoiled = code in {"idempotency_key_missing", "idempotency_key_reused"}
    key = uuid4() if spoiled else form.cleaned_data["key"]
    message = refusals.message(code, **why.more)
    quantity = form.cleaned_data.get("quantity", 1)
    response = _show(request, sale, key, form, quantity=quantity, refusal=message)
    return refusals.mark(response, code)


def _show(
    request: HttpRequest,
    sale: int,
    key: UUID,
    form: BuyForm,
    *,
    quantity: int = 1,
    refusal: str = "",
) -> HttpResponse:
    offer = offers.find(sale)
    if offer is None:
        raise Http404
    mine = Order.objects.none()
    if request.user.is_authenticated:
        mine = Order.objects.filter(lines__sale=sale, buyer=request.user.pk).order_by("-pk")[:10]
    context = {
        "offer": offer,
        "key": key,
        "quantity": quantity,
        "form": form,
        "refusal": refusal,
        "mine": mine,
    }
    return render(request, "shop/sale.html", context)
