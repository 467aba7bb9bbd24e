"""The provider's page: what was paid lately, and how the provider misbehaves. In the demo only."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.db.models import Count, Q, Sum
from django.http import HttpRequest, HttpResponse, HttpResponseNotFound
from django.shortcuts import render
from django.views.decorators.http import require_safe
from msgspec.structs import asdict

from lab.psp import behaviour
from lab.psp.behaviour import Behaviour
from lab.psp.models import Intent
from shop import money

LATEST = 50
"""Payments shown."""

WAITING = (Intent.Status.REQUIRES_CAPTURE, Intent.Status.PROCESSING)


@require_safe
def payments(request: HttpRequest) -> HttpResponse:
    """Show the totals and the latest payments."""
    if not settings.PSP_BEHAVIOUR_MAY_CHANGE:
        return HttpResponseNotFound()
    return render(request, "psp/payments.html", {**_figures(), "stage": _stage()})


def _stage() -> str:
    """Return the address of the stage of the demo's shop, which gets the webhooks; empty: none."""
    shop = urlsplit(settings.PSP_WEBHOOK_URL)
    return f"{shop.scheme}://{shop.netloc}/stage/" if shop.netloc else ""


def _figures() -> dict[str, Any]:
    totals = Intent.objects.aggregate(
        payments=Count("pk"),
        processing=Count("pk", filter=Q(status__in=WAITING)),
        failed=Count("pk", filter=Q(status=Intent.Status.FAILED)),
    )
    sums = Intent.objects.values("currency").annotate(
        all_captured=Sum("captured"), all_refunded=Sum("refunded")
    )
    return {
        "totals": totals,
        "sums": [
            {
                "captured": _money(each["all_captured"], each["currency"]),
                "refunded": _money(each["all_refunded"], each["currency"]),
            }
            for each in sums.order_by("currency")
        ],
        "latest": [
            {
                "created": intent.created,
                "order": intent.order,
                "status": intent.get_status_display(),
                "amount": _money(intent.amount, intent.currency),
                "refunded": _money(intent.refunded, intent.currency) if intent.refunded else "",
            }
            for intent in Intent.objects.order_by("-created", "-pk")[:LATEST]
        ],
        "faults": _faults(behaviour.current()),
    }


def _money(amount: int, currency: str) -> str:
    return money.display(amount, currency, "en")


def _faults(now: Behaviour) -> list[str]:
    ordinary = asdict(Behaviour(webhook_url=now.webhook_url, seed=now.seed))
    return [f"{name} {value}" for name, value in asdict(now).items() if value != ordinary[name]]
