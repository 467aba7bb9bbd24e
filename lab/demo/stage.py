"""The stage: one page that leads a demonstrator to everything there is to show."""

from __future__ import annotations

from dataclasses import dataclass

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _
from django.views.decorators.http import require_safe

from lab.demo.data import LOGINS
from lab.demo.site import SITE


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
def stage(request: HttpRequest) -> HttpResponse:
    """Show the parts of the demo, its accounts, and a show of ten minutes."""
    found = scenes()
    links = {scene.picture: scene.url for scene in found}
    return render(request, "lab/stage.html", {"scenes": found, "logins": LOGINS, **links})
