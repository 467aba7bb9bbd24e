"""System checks for fields that a team adds to the shop's models, and for a deployment's settings.

Orders and webhook events are written in SQL. A field that those statements cannot fill would
make every sale fail.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.checks import CheckMessage, Error, Info, Tags, register
from django.core.checks import Warning as Caution
from django.utils.translation import to_locale

from inventory.sql import made_by_django, without_value
from shop.accounts.addresses import REQUEST_WINDOW
from shop.background import config
from shop.background.cleanup import KEEP_COUNTS
from shop.mails.sending import MAX_SENDING
from shop.operating import added_middleware, safe_start
from shop.orders.creation import LINE, ORDER
from shop.orders.models import Order, OrderLine
from shop.orders.totals import fees_function
from shop.payments.models import WebhookEvent
from shop.payments.provider import provider

CATALOGUES = Path(__file__).resolve().parent.parent / "locale"

OPENED = {Order: ORDER, OrderLine: LINE}

WRITTEN_IN_SQL = {WebhookEvent: ("id", "type")}
"""Models whose rows are written in SQL that names these fields only."""


@register(Tags.models)
def check_columns(**_: Any) -> Iterator[CheckMessage]:
    """Find added fields that would get no value."""
    for model, given in OPENED.items():
        for field in without_value(model, given):
            yield Error(
                f"{model.__name__}.{field} has no default, so no order can be opened.",
                hint="Add a default, null=True, or a value in shop/orders/creation.py.",
                obj=model,
                id="shop.E001",
            )
    for other, named in WRITTEN_IN_SQL.items():
        for field in made_by_django(other, named):
            yield Error(
                f"{other.__name__}.{field} gets no value: rows of this model are written in SQL.",
                hint="Give the field a db_default instead of a default.",
                obj=other,
                id="shop.E002",
            )


@register()
def check_provider(**_: Any) -> Iterator[CheckMessage]:
    """Find a payment provider that cannot be had, before the first buyer pays."""
    if settings.PAYMENT_PROVIDER:
        try:
            provider()
        except (ImportError, TypeError) as error:
            yield Error(f"PAYMENT_PROVIDER: {error}", id="shop.E004")


@register()
def check_fees(**_: Any) -> Iterator[CheckMessage]:
    """Find a function for fees that is not there, before the first buyer orders."""
    try:
        fees_function(settings.FEES)
    except ImportError as error:
        yield Error(f"SHOP_FEES: {error}", id="shop.E006")


@register()
def check_limits(**_: Any) -> Iterator[CheckMessage]:
    """Find time limits that end before what they bound.

    A mail is sent in a task, and in a transaction that locks its message. Whatever ends these
    before the mail server has answered lets the mail be sent again. What counts mails is kept for
    longer than any limit of mails looks back.
    """
    # In seconds, each shorter than the next one.
    limits = (
        ("EMAIL_TIMEOUT", settings.EMAIL_TIMEOUT),
        ("Celery's task_soft_time_limit", config.task_soft_time_limit),
        ("Celery's task_time_limit", config.task_time_limit),
        ("MAX_SENDING (shop/mails/sending.py)", MAX_SENDING),
    )
    kept = ("KEEP_COUNTS (shop/background/cleanup.py)", int(KEEP_COUNTS.total_seconds()))
    pairs = [
        *pairwise(limits),
        # After which the broker gives the task to another worker.
        (limits[2], ("Celery's visibility_timeout", config.VISIBILITY)),
        (("MAIL_INTERVAL", settings.SHOP_MAIL_INTERVAL), kept),
        (("REQUEST_WINDOW (shop/accounts/addresses.py)", REQUEST_WINDOW.total_seconds()), kept),
    ]
    for (name, seconds), (bound, most) in pairs:
        if seconds is None or seconds >= most:
            shown = "no limit" if seconds is None else f"{seconds} s"
            yield Error(
                f"{name} must be shorter than {bound}, {most} s, and is {shown}.",
                hint="Else it is ended, forgotten or begun once more before its own limit.",
                id="shop.E005",
            )


@register(Tags.translation)
def check_languages(**_: Any) -> Iterator[CheckMessage]:
    """Find languages of the shop that nobody has translated it into."""
    for code, name in settings.LANGUAGES:
        if not code.startswith("en") and not (CATALOGUES / to_locale(code)).is_dir():
            yield Caution(
                f"The shop is not translated into {name} ({code}), a language of SHOP_LANGUAGES.",
                hint=f"Run: make messages ARGS='--add {code}'",
                id="shop.W001",
            )


@register()
def check_middleware(**_: Any) -> Iterator[CheckMessage]:
    """Say what added middleware costs the API."""
    if names := added_middleware.added():
        yield Info(
            f"The API's calls go through {', '.join(names)} too.",
            hint="Besides its own time, each call then takes 30 µs of CPU for Django's request and "
            "response, a sixth of a purchase. Measure yours: "
            "make bench ARGS='--only noop_api combining'.",
            id="shop.I001",
        )


@register(Tags.security, deploy=True)
def check_start(**_: Any) -> Iterator[CheckMessage]:
    """Find what would keep production from starting."""
    for problem in safe_start.problems():
        yield Error(problem, id="shop.E003")
