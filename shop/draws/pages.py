"""The page of a draw: enter, withdraw, see one's place, and check the draw."""

from __future__ import annotations

from typing import Any

import msgspec
from django import forms
from django.contrib.auth.decorators import login_required
from django.contrib.auth.views import redirect_to_login
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_safe

from inventory.models import Item
from shop.draws import entering
from shop.draws.api import entry_document
from shop.draws.models import Draw
from shop.pages import refusals
from shop.pages.sales import of
from shop.refusals import Refusal

STATUS: dict[str, Promise] = {
    "not_started": _("Draw: opens soon"),
    "paused": _("Draw: paused"),
    "open": _("Draw: open for entries"),
    "closed": _("Draw: closed, being drawn"),
    "awaiting_value": _("Draw: closed, waiting for the public value"),
    "drawn": _("Draw: drawn"),
    "failed": _("Draw: failed"),
}

ON_PAGE: dict[str, Promise] = {
    "limit_reached": _("You or this address cannot enter this draw again."),
    "invalid_request": _("Please state an address."),
    "outcome_unknown": _("We cannot tell yet whether that was recorded. Press the button again."),
}
"""Messages for codes that say something else here than for a purchase."""

SCRIPT: dict[str, Promise] = {
    "checking": _("Checking… %(number)s lines"),
    "agrees": _("Everything agrees: the seed is the promised one, and the list is unbroken."),
    "place": _("Your number %(number)s has place %(place)s of %(entries)s, computed here."),
    "withdrawn": _("Your number %(number)s was withdrawn."),
    "not_over": _("The draw is not over: the seed or the public value is not known yet."),
    "contradiction": _("CONTRADICTION: %(what)s"),
    "unreachable": _("The list could not be read. Please try again."),
    "insecure": _("Your browser checks only on pages with HTTPS. Use the program instead."),
    "seed": _("the seed is not the one that the shop had promised"),
    "line": _("line %(number)s does not follow from those before"),
    "last_hash": _("the last hash is not the one that was published"),
    "receipt": _("the list does not have your receipt"),
}
"""Messages of `check.js`, by name."""


class EntryForm(forms.Form):
    """An entry, or its withdrawal."""

    address = forms.CharField(required=False, max_length=entering.MAX_ADDRESS)
    withdraw = forms.BooleanField(required=False)


@require_http_methods(["GET", "HEAD", "POST"])
@never_cache
def draw(request: HttpRequest, sale: int) -> HttpResponse:
    """Show a draw (GET), enter it or withdraw (POST)."""
    if request.method != "POST":
        return _show(request, sale)
    if not request.user.is_authenticated:
        return redirect_to_login(request.path)
    form = EntryForm(request.POST)
    buyer = _buyer(request)
    try:
        if not form.is_valid():
            raise Refusal("invalid_request")
        if form.cleaned_data["withdraw"]:
            entering.withdraw(sale, buyer)
        else:
            entering.enter(sale, buyer, form.cleaned_data["address"])
    except Refusal as refusal:
        if refusal.code == "not_found" and not form.cleaned_data.get("withdraw"):
            raise Http404 from refusal
        text = ON_PAGE.get(refusal.code) or refusals.message(refusal.code)
        return refusals.mark(_show(request, sale, refusal=str(text)), refusal.code)
    return redirect("draw", sale)


@require_safe
@never_cache
@login_required
def receipt(request: HttpRequest, sale: int) -> HttpResponse:
    """Download the visitor's receipt, as `verify.py --receipt` takes it."""
    try:
        found = entering.receipt_of(sale, _buyer(request))
    except Refusal as refusal:
        raise Http404 from refusal
    return HttpResponse(
        msgspec.json.encode(entry_document(*found)),
        content_type="application/json",
        headers={"Content-Disposition": f'attachment; filename="receipt-{sale}.json"'},
    )


def _buyer(request: HttpRequest) -> int:
    """Return the visitor's id; they are signed in."""
    pk: int | None = request.user.pk
    assert pk is not None
    return pk


def _show(request: HttpRequest, sale: int, *, refusal: str = "") -> HttpResponse:
    found = Draw.objects.select_related("sale").filter(pk=sale).first()
    if found is None:
        raise Http404
    [offer] = of([sale])
    mine = None
    if request.user.is_authenticated:
        try:
            mine = entry_document(*entering.receipt_of(sale, request.user.pk))
        except Refusal:
            mine = None
    status = found.status(offer.now)
    context: dict[str, Any] = {
        "offer": offer,
        "draw": found,
        "status": status,
        "label": STATUS[status],
        "mine": mine,
        "entered": mine is not None and not mine.withdrawn,
        "may_enter": status == "open" and (mine is None or mine.withdrawn),
        "units": Item.objects.values_list("total", flat=True).get(pk=found.sale.item_id),
        "refusal": refusal,
        "published": _published(found),
        "texts": {name: str(text) for name, text in SCRIPT.items()},
    }
    return render(request, "draws/draw.html", context)


def _published(draw: Draw) -> list[tuple[Promise, str]]:
    """Return what the shop has published of a draw, in the order of time."""
    parts: list[tuple[Promise, str]] = [(_("Commitment"), bytes(draw.commitment).hex())]
    if draw.source:
        parts.append((_("Source of the public value"), draw.source))
    if draw.closed:
        parts.append((_("Lines in the list"), str(draw.lines)))
        parts.append((_("Last hash"), bytes(draw.head).hex()))
    if draw.seed is not None:
        parts.append((_("Seed"), bytes(draw.seed).hex()))
    if draw.public_value:
        parts.append((_("Public value"), draw.public_value))
    return parts
