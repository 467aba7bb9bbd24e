"""Render mails to buyers: subject, text and HTML.

Each mail is in all languages of the shop, because orders do not store the buyer's language: that
would cost each purchase a query.
"""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.core.mail import EmailMultiAlternatives
from django.db.models import TextChoices
from django.template.loader import render_to_string
from django.utils.functional import Promise
from django.utils.text import slugify
from django.utils.translation import gettext, override
from django.utils.translation import gettext_lazy as _

from shop.orders.details import labelled
from shop.orders.models import Order


class Kind(TextChoices):
    """The occasion of a mail."""

    CONFIRMATION = "confirmation", "order received"
    EXPIRED = "expired", "order expired"
    PAID = "paid", "payment received"
    REFUNDED = "refunded", "money given back"
    TOO_LATE = "money_owed", "paid too late or too much"


TONES = {
    Kind.CONFIRMATION: "accent",
    Kind.PAID: "good",
    Kind.EXPIRED: "dull",
    Kind.REFUNDED: "good",
    Kind.TOO_LATE: "warn",
}
"""Colour of the heading, by kind."""

TEXTS: dict[Kind, tuple[Promise, Promise]] = {
    Kind.CONFIRMATION: (
        _("Reserved for you: %(contents)s"),
        _(
            "We are holding your order until %(deadline)s. Please pay before then; "
            "otherwise the order expires."
        ),
    ),
    Kind.PAID: (
        _("Order %(number)s is paid"),
        _("We have received your payment. Thank you for your purchase!"),
    ),
    Kind.EXPIRED: (
        _("Order %(number)s has expired"),
        _("The order was not paid in time. You were not charged."),
    ),
    Kind.REFUNDED: (
        _("Order %(number)s has been refunded"),
        _("You returned this order, and your payment has been refunded."),
    ),
    Kind.TOO_LATE: (
        _("We are refunding your payment for order %(number)s"),
        _(
            "Your payment arrived when it could no longer be used in full: either the deadline "
            "had passed and everything was sold, or you had already cancelled. We refund the "
            "excess automatically; you do not need to do anything."
        ),
    ),
}
"""Heading, which is also the subject, and body, by kind."""

WITHOUT_PAYMENTS: dict[Kind, tuple[Promise, Promise]] = {
    Kind.PAID: (_("Order %(number)s is confirmed"), _("Thank you for your order!")),
    Kind.EXPIRED: (
        _("Order %(number)s has expired"),
        _("The order was not confirmed in time."),
    ),
    Kind.REFUNDED: (_("Order %(number)s has been returned"), _("You returned this order.")),
}
"""Those that differ in a shop that takes no payments."""


def message(kind: Kind, order: Order) -> EmailMultiAlternatives:
    """Write a mail from the current state of its order.

    Its Message-ID derives from its kind and order, so that mail programs show it once even if it is
    sent twice.
    """
    texts = [_texts(code, kind, order) for code, _name in settings.LANGUAGES]
    context = {
        "order": order,
        "lines": order.lines.all(),
        # What the total leaves out: a part that was cancelled before the payment.
        "cancelled": sum(line.amount for line in order.lines.all()) - order.amount,
        "texts": texts,
        "details": _details(order),
        "link": settings.PUBLIC_URL and settings.PUBLIC_URL + order.get_absolute_url(),
        "to_pay": kind == Kind.CONFIRMATION,
        "pay_before": _deadline(order),
        "tone": TONES[kind],
    }
    with override(settings.LANGUAGE_CODE):  # amounts are the same from whatever process
        text = render_to_string("mail/mail.txt", context)
        html = render_to_string("mail/mail.html", context)
    ready = EmailMultiAlternatives(
        # A pasted product name may contain a line break, which a header cannot.
        " ".join(" / ".join(each["heading"] for each in texts).split()),
        text,
        settings.DEFAULT_FROM_EMAIL,
        [order.buyer.email or f"{order.buyer.username}@localhost"],
        headers={"Message-ID": f"<{kind}.{order.pk}@{slugify(settings.SHOP_NAME)}>"},
    )
    ready.attach_alternative(html, "text/html")
    return ready


def _texts(language: str, kind: Kind, order: Order) -> dict[str, Any]:
    others = {} if settings.PAYMENT_PROVIDER else WITHOUT_PAYMENTS
    heading, body = others.get(kind, TEXTS[kind])
    with override(language):
        values = {
            "number": order.pk,
            "contents": order.contents,
            "deadline": _deadline(order),
        }
        return {
            "language": language,
            "heading": str(heading) % values,
            "body": str(body) % values,
            "shop": gettext(settings.SHOP_NAME),
            "order": gettext("Order"),
            "cancelled": gettext("Cancelled"),
            "total": gettext("Total"),
            "pay_before": gettext("Pay before"),
            "refunded": gettext("Refunded"),
            "button": gettext("Pay now")
            if kind == Kind.CONFIRMATION
            else gettext("View your order"),
            "why": gettext("You receive this email because of your order with us."),
        }


def _details(order: Order) -> list[tuple[list[dict[str, str]], Any]]:
    """Return the order's details, each with its label in all languages."""
    found: list[tuple[list[dict[str, str]], Any]] = []
    for language, _name in settings.LANGUAGES:
        with override(language):
            for index, (label, value) in enumerate(labelled(order)):
                if index == len(found):
                    found.append(([], value))
                found[index][0].append({"language": language, "label": label})
    return found


def _deadline(order: Order) -> str:
    return f"{order.pay_before:%Y-%m-%d %H:%M} UTC"
