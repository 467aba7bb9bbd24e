"""What a form answers whose CSRF token is no longer that of the browser.

Signing in gives a browser a new token, so a page that waited in another tab has the old one.
Nothing was carried out. The buyer is led back to the page with what they typed, and presses the
button again. A form from another site, by its `Origin`, gets the plain refusal.
"""

from __future__ import annotations

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.http import url_has_allowed_host_and_scheme
from django.utils.translation import gettext
from django.views.csrf import csrf_failure as plain_refusal

from shop.pages import carts, sales


def failure(request: HttpRequest, reason: str = "") -> HttpResponse:
    """Lead back to the page that the form was on; refuse if that is not known."""
    match = request.resolver_match
    name = match.url_name if match is not None and not match.namespaces else None
    # Reasons about the origin or the referer, or without any cookie, are no forms of ours.
    if not reason.startswith("CSRF token") or request.method != "POST":
        return plain_refusal(request, reason)
    again = gettext("Your session has changed in another window. Please press the button again.")
    arguments = match.kwargs if match is not None else {}
    if name in {"sale", "cart-line"}:
        return sales.show_again(request, arguments["sale"], again)
    if name in {"sign-in", "sign-up"}:
        return _after_sign_in(request, name)
    if name == "cart":
        messages.warning(request, again)
        return carts.show_again(request)
    if name in {"pay", "cancel", "refund"}:
        messages.warning(request, again)
        return redirect("order", arguments["order"])
    if name in {"account", "change-address"}:
        messages.warning(request, again)
        return redirect("account")
    return plain_refusal(request, reason)


def _after_sign_in(request: HttpRequest, name: str) -> HttpResponse:
    """Lead on to where the sign-in would have led, or ask again."""
    wanted = request.POST.get("next") or request.GET.get("next") or ""
    safe = url_has_allowed_host_and_scheme(
        wanted, allowed_hosts={request.get_host()}, require_https=request.is_secure()
    )
    if request.user.is_authenticated:
        return redirect(wanted if safe else "home")
    return redirect(reverse(name, query={"next": wanted} if safe else None))
