"""The cart, kept in the session until it is bought."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from django.contrib import messages
from django.contrib.auth.views import redirect_to_login
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils.translation import gettext
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST

from inventory.outcomes import MAX_LINES
from shop.catalogue.models import Sale
from shop.checkout import Wanted, check_out
from shop.orders.details import complete
from shop.orders.models import Order
from shop.orders.totals import Basket, PricedLine, Total, total
from shop.pages import refusals, sales
from shop.pages.forms import CartForm, LineForm
from shop.pages.keys import amount_of, new_key
from shop.pages.sales import Offer
from shop.refusals import Refusal

SESSION_KEY = "cart"
"""Name of the session's entry: quantities by sale id, as text because sessions are JSON."""

TYPED = "details"
"""Name of the session's entry with details that were typed into a page which the cart replaced."""


@dataclass(frozen=True, slots=True)
class Line:
    """A line of the cart page."""

    offer: Offer
    quantity: int
    refused: bool

    @property
    def amount(self) -> int:
        """Return its amount in minor units."""
        return self.offer.sale.price * self.quantity


# Never cached, like the page of a sale: each visit gets a new key, which says the total shown.
@require_http_methods(["GET", "HEAD", "POST"])
@never_cache
def cart(request: HttpRequest) -> HttpResponse:
    """Show the cart (GET), or update or buy it (POST)."""
    if request.method != "POST":
        return _show(request, None, CartForm(initial=request.session.pop(TYPED, {})))
    asked = "update" in request.POST
    if not (asked or request.user.is_authenticated):
        return redirect_to_login(request.path)
    if _updated(request, asked=asked) or not request.user.is_authenticated:
        return _again(request)
    form = CartForm(request.POST)
    if not form.is_valid():
        return _refuse(request, form, Refusal(form.refusal()))
    key = form.cleaned_data["key"]
    wanted = [Wanted(int(sale), quantity) for sale, quantity in _in_session(request).items()]
    if not wanted:
        # A repeated request whose first one emptied the cart: show that order.
        mine = Order.objects.filter(buyer=request.user.pk, lines__reservation__key=key)
        return redirect(mine.first() or "cart")
    try:
        bought = check_out(
            request.user.pk,
            key,
            wanted,
            form.details(),
            expected_amount=amount_of(key),
            early_code=sales.early_code(request),
        )
    except Refusal as refusal:
        return _refuse(request, form, refusal)
    del request.session[SESSION_KEY]
    return redirect("order", bought.order.pk)


@require_POST
def change(request: HttpRequest, sale: int) -> HttpResponse:
    """Set the quantity of a sale in the cart; 0 removes it."""
    currency = get_object_or_404(Sale, pk=sale).currency
    form = LineForm(request.POST)
    if not form.is_valid():
        messages.error(request, refusals.message("invalid_quantity"))
        return _again(request)
    kept = _kept(request)
    kept.pop(str(sale), None)
    if quantity := form.cleaned_data["quantity"]:
        others = Sale.objects.filter(pk__in=map(int, kept)).exclude(currency=currency)
        if len(kept) >= MAX_LINES or others.exists():
            messages.error(request, refusals.message("invalid_cart"))
            return _again(request)
        kept[str(sale)] = quantity
    request.session[SESSION_KEY] = kept
    return _again(request)


def _updated(request: HttpRequest, *, asked: bool) -> bool:
    """Keep the quantities that were sent; tell whether to show the cart again before it is bought.

    A cart other than the one on the buyer's page is never bought.
    """
    before = _in_session(request)
    kept = _kept(request)
    if not asked and kept != before:
        return True
    sent = [name.removesuffix("-quantity") for name in request.POST if name.endswith("-quantity")]
    lines = {sale: LineForm(request.POST, prefix=sale) for sale in sent if sale in kept}
    if not all(line.is_valid() for line in lines.values()):
        messages.error(request, refusals.message("invalid_quantity"))
        return True
    wanted = kept | {sale: line.cleaned_data["quantity"] for sale, line in lines.items()}
    if not (asked or (kept and (wanted != kept or set(sent) != kept.keys()))):
        return False
    request.session[SESSION_KEY] = {sale: units for sale, units in wanted.items() if units}
    if not asked:
        messages.warning(
            request, gettext("Your cart has changed. Please check the total before you buy.")
        )
    return True


def show_again(request: HttpRequest) -> HttpResponse:
    """Lead back to the cart with the details that were typed; nothing was done."""
    return _again(request)


def _again(request: HttpRequest) -> HttpResponse:
    if typed := {name: request.POST[name] for name in Order.DETAILS if name in request.POST}:
        request.session[TYPED] = typed
    return redirect("cart")


def _in_session(request: HttpRequest) -> dict[str, int]:
    return dict(request.session.get(SESSION_KEY, {}))


def _kept(request: HttpRequest) -> dict[str, int]:
    """Return the quantities in the cart by sale, after it was adapted to the sales that there are.

    A session may be weeks old. A line whose sale was deleted since, or got another currency than
    the lines before it, could be neither bought nor seen on the page, so it is taken out, and the
    buyer reads so.
    """
    kept = _in_session(request)
    currencies = dict(Sale.objects.filter(pk__in=kept).values_list("pk", "currency"))
    currency = next((currencies[int(sale)] for sale in kept if int(sale) in currencies), "")
    valid = {sale: units for sale, units in kept.items() if currencies.get(int(sale)) == currency}
    if valid != kept:
        request.session[SESSION_KEY] = valid
        messages.warning(
            request,
            gettext(
                "Something in your cart is no longer offered, so we removed it. "
                "Please check the total before you buy."
            ),
        )
    return valid


def _refuse(request: HttpRequest, form: CartForm, refusal: Refusal) -> HttpResponse:
    # A purchase without an answer can be repeated under the same key.
    key = None if refusal.code in refusals.NEW_KEY else form.cleaned_data["key"]
    message = refusals.message(refusal.code, **refusal.more)
    response = _show(request, key, form, message, refusal.more.get("sale"))
    return refusals.mark(response, refusal.code)


def _show(
    request: HttpRequest,
    key: UUID | None,
    form: CartForm,
    refusal: str = "",
    refused: int | None = None,
) -> HttpResponse:
    kept = _kept(request)
    lines = [
        Line(offer, kept[str(offer.sale.pk)], offer.sale.pk == refused)
        for offer in sales.of(map(int, kept))
    ]
    # All lines have the same currency: see `change`.
    currency = lines[0].offer.sale.currency if lines else ""
    priced = [
        PricedLine(line.offer.sale.pk, line.quantity, line.offer.sale.price) for line in lines
    ]
    details = complete(form.details()) if form.is_bound and form.is_valid() else {}
    cost = total(Basket(priced, currency, details)) if lines else Total(0, ())
    context = {
        "lines": lines,
        "fees": cost.fees,
        "total": cost.amount,
        "currency": currency,
        "key": key or new_key(cost.amount),
        "form": form,
        "refusal": refusal,
        "sign_in": f"{reverse('sign-in')}?next={request.path}",
    }
    return render(request, "shop/cart.html", context)
