"""Pages of the demo: the stage, the mails about an order, and the documentation's site."""

from __future__ import annotations

from dataclasses import dataclass

from django.conf import settings
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.contrib.auth.views import redirect_to_login
from django.http import (
    FileResponse,
    Http404,
    HttpRequest,
    HttpResponse,
    HttpResponseBase,
    HttpResponseRedirect,
)
from django.shortcuts import get_object_or_404, render
from django.urls import reverse
from django.utils.functional import Promise
from django.utils.http import url_has_allowed_host_and_scheme
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _
from django.views.decorators.cache import never_cache
from django.views.decorators.clickjacking import xframe_options_sameorigin
from django.views.decorators.http import require_POST, require_safe
from django.views.static import serve

from inventory.models import OutboxMessage
from lab.demo.data import LOGINS
from lab.demo.show import ADMIN, RoomFailed, find_login, show_steps, sign_in, start_again
from shop import environment
from shop.catalogue.models import Sale
from shop.mails.rendering import Kind, message
from shop.mails.sending import topic
from shop.operating import headers
from shop.orders.models import Order
from shop.pages.sales import Offer, offers_of

MAX_UNLISTED = 8
"""Sales of load tests on the stage, of the hundreds that they leave behind."""

SITE = environment.PROJECT / "site"


@dataclass(frozen=True, slots=True)
class Scene:
    """A part of the demo.

    Attributes:
        picture: name of its file below `lab/stage/`, without the suffix.
        title: what it is.
        line: what there is to see.
        url: its address; empty: it is not there, and `line` says why.
    """

    picture: str
    title: Promise
    line: Promise
    url: str


def scenes() -> list[Scene]:
    """Return the parts of the demo, in the order in which to show them."""
    room = _("Start a rush, press a fault, and watch stock, rates and the queue of buyers.")
    site = SITE.is_dir()
    return [
        Scene("shop", _("Shop"), _("What buyers see: sales, cart and orders."), reverse("home")),
        Scene("room", _("Control room"), room, reverse("room") if settings.ROOM_URL else ""),
        Scene(
            "duel",
            _("Duel"),
            _("Two strategies sell to the same buyers, and one of them oversells."),
            reverse("duel") if settings.ROOM_URL else "",
        ),
        Scene(
            "locks",
            _("Lock lab"),
            _("The locks that people write first, step by step until they fail; one cannot."),
            reverse("locks"),
        ),
        Scene(
            "locust",
            _("Locust"),
            _("Load with your own numbers, and a verdict at its end."),
            settings.LOCUST_URL,
        ),
        Scene(
            "api",
            _("API documentation"),
            _("Every call, with its answers and refusals."),
            reverse("api-docs"),
        ),
        Scene(
            "admin",
            _("Admin"),
            _("Products, stock, orders, payments and alerts."),
            reverse("admin:index"),
        ),
        Scene(
            "provider",
            _("Payment provider"),
            _("The other side of each payment: what was captured and refunded."),
            settings.PSP_URL,
        ),
        Scene(
            "docs",
            _("Documentation"),
            _("How it works and why it is correct.")
            if site
            else _("How it works and why it is correct. Run “make site” to read it here."),
            "/docs/site/" if site else "",
        ),
    ]


@require_safe
@never_cache
def stage(request: HttpRequest) -> HttpResponse:
    """Show the show of ten minutes, the accounts, the parts of the demo, and load tests' sales.

    With `?next=`, it asks whom to sign in as, for a page that needs another account.
    """
    onward = request.GET.get("next", "")
    context = {
        "scenes": scenes(),
        "steps": list(enumerate(show_steps(), start=1)),
        "logins": LOGINS,
        "unlisted": unlisted(),
        "next": onward if _is_ours(request, onward) else "",
    }
    return render(request, "lab/stage.html", context)


def _is_ours(request: HttpRequest, url: str) -> bool:
    """Return whether an address is a page of this shop, so that it may be gone to."""
    return url_has_allowed_host_and_scheme(
        url, allowed_hosts={request.get_host()}, require_https=request.is_secure()
    )


@require_POST
def sign_in_as(request: HttpRequest) -> HttpResponse:
    """Sign in as one of the demo's accounts, and go on to `next`."""
    who = find_login(request.POST.get("who", ""))
    if who is None:
        raise Http404
    onward = request.POST.get("next", "")
    if not _is_ours(request, onward):
        onward = reverse("stage")
    if not sign_in(request, who):
        return redirect_to_login(onward)
    return HttpResponseRedirect(onward)


@require_POST
def show_again(request: HttpRequest) -> HttpResponse:
    """Start the show again, as the administrator."""
    if not sign_in(request, ADMIN):
        return redirect_to_login(reverse("stage"))
    try:
        start_again(request.user)
        messages.success(request, gettext("The show can start again."))
    except RoomFailed as error:
        problem = gettext("The control room could not start again: %(why)s")
        messages.error(request, problem % {"why": error})
    return HttpResponseRedirect(reverse("stage"))


def unlisted() -> list[Offer]:
    """Return the newest sales that the shop's home page leaves out, as load tests open them."""
    return list(offers_of(Sale.objects.filter(listed=False).order_by("-pk")[:MAX_UNLISTED]))


MAIL_POLICY = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'self'"
"""A mail has its styles inline, and is shown in a frame of the page of mails."""


@require_safe
@never_cache
@login_required
def mails(request: HttpRequest, order: int) -> HttpResponse:
    """Show all mails about an order: the demo's mail server sends none on."""
    found = _order(request, order)
    letters = [(kind, sent, message(kind, found)) for kind, sent in _sent(found).items()]
    return render(request, "lab/mails.html", {"order": found, "letters": letters})


@require_safe
@never_cache
@login_required
@xframe_options_sameorigin  # the page above shows it in a frame, which isolates its styles
def mail(request: HttpRequest, order: int, kind: str) -> HttpResponse:
    """Show one mail as a mail program does."""
    found = _order(request, order)
    if kind not in _sent(found):
        raise Http404
    # Its links must open outside the frame.
    base = '<head><base target="_top">'
    [(html, _type)] = message(Kind(kind), found).alternatives
    text = str(html).replace("<head>", base, 1)
    return HttpResponse(text, headers={headers.POLICY: MAIL_POLICY})


def _order(request: HttpRequest, order: int) -> Order:
    orders = Order.objects.with_lines().select_related("buyer")
    if not request.user.has_perm("shop.view_order"):
        orders = orders.filter(buyer=request.user.pk)
    return get_object_or_404(orders, pk=order)


def _sent(order: Order) -> dict[Kind, object]:
    """Return when each mail about the order was sent, in the order in which they were due."""
    kinds = {topic(kind): kind for kind in Kind}
    messages = OutboxMessage.objects.filter(key=str(order.pk), topic__in=kinds).order_by("pk")
    return {kinds[name]: done for name, done in messages.values_list("topic", "done")}


SITE_POLICY = f"{headers.PAGES}; img-src 'self' data:"
"""The theme's icons are data in its style sheets."""


@require_safe
def documentation(request: HttpRequest, path: str) -> HttpResponseBase:
    """Serve a file of the site, if `make site` has built it; for a folder, its page."""
    if ".." in path:
        raise Http404
    if (SITE / path).is_dir():
        if path and not path.endswith("/"):
            return HttpResponseRedirect(f"{request.path}/")
        path = f"{path}index.html"
    if not SITE.is_dir():
        raise Http404("run `make site` first")
    response: FileResponse = serve(request, path, document_root=str(SITE))
    response.headers[headers.POLICY] = SITE_POLICY
    return response
