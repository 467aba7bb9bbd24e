"""Render mails to buyers: subject, text and HTML.

Each mail is in all languages of the shop, because orders do not store the buyer's language: that
would cost each purchase a query.
"""

from __future__ import annotations

from collections.abc import Sequence
from email.utils import parseaddr
from typing import Any

from django.conf import settings
from django.core.mail import EmailMultiAlternatives
from django.db.models import TextChoices
from django.template.loader import render_to_string
from django.utils.functional import Promise
from django.utils.timezone import localtime
from django.utils.translation import gettext, override
from django.utils.translation import gettext_lazy as _

from shop.accounts.addresses import is_mailable
from shop.catalogue.models import Sale
from shop.identity import identity
from shop.orders.details import labelled
from shop.orders.models import Order, OrderEvent, OrderFee


class Kind(TextChoices):
    """The occasion of a mail."""

    CONFIRMATION = "confirmation", "order received"
    EXPIRED = "expired", "order expired"
    PAID = "paid", "payment received"
    CANCELLED = "cancelled", "order cancelled by the shop"
    REFUNDED = "refunded", "money given back"
    TOO_LATE = "money_owed", "paid too late or too much"


TONES = {
    Kind.CONFIRMATION: "accent",
    Kind.PAID: "good",
    Kind.EXPIRED: "dull",
    Kind.CANCELLED: "dull",
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
    Kind.CANCELLED: (
        _("Order %(number)s has been cancelled"),
        _("We had to cancel this order. You were not charged."),
    ),
    Kind.REFUNDED: (
        _("Order %(number)s has been refunded"),
        _("Your payment for this order has been refunded."),
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

DRAWN: tuple[Promise, Promise] = (
    _("You have won. Reserved for you: %(contents)s"),
    _(
        "Your entry was drawn. We are holding your order until %(deadline)s. Please pay before "
        "then; otherwise it goes to the next in order."
    ),
)
"""The first mail about an order that was won in a draw."""

WITHOUT_PAYMENTS: dict[Kind, tuple[Promise, Promise]] = {
    Kind.PAID: (_("Order %(number)s is confirmed"), _("Thank you for your order!")),
    Kind.EXPIRED: (
        _("Order %(number)s has expired"),
        _("The order was not confirmed in time."),
    ),
    Kind.REFUNDED: (_("Order %(number)s has been returned"), _("This order has been returned.")),
}
"""Those that differ in a shop that takes no payments."""


Event = OrderEvent.Kind

OCCASIONS: dict[str, Kind] = {
    Event.PAID: Kind.PAID,
    Event.PAID_LATE: Kind.PAID,
    Event.EXPIRED: Kind.EXPIRED,
    Event.REFUNDED: Kind.REFUNDED,
    Event.MONEY_OWED: Kind.TOO_LATE,
}
"""The mail about an event, by the event's kind. The first mail, of the opening, has no event."""


def occasion(event: OrderEvent) -> Kind | None:
    """Return the mail about an event; None if there is none.

    Buyers who cancelled know it; those whose order staff cancelled get a mail.
    """
    if event.kind == Event.CANCELLED and event.actor:
        return Kind.CANCELLED
    return OCCASIONS.get(event.kind)


def message(
    kind: Kind, order: Order, others: Sequence[Order] = (), *, again: str = ""
) -> EmailMultiAlternatives:
    """Write a mail from the current state of its order.

    Its Message-ID derives from its kind, its order and the database's identity, so that mail
    programs show it once even if it is sent twice, and never take it for another shop's.

    Args:
        kind: the occasion.
        order: with its lines and its buyer.
        others: further orders of the same address with the same occasion, newest first, which
            this mail lists too.
        again: names a repeat that staff asked for, which mail programs must show once more.

    Returns:
        The mail, which has no recipient if the buyer has no address that mails can go to.
    """
    texts = [_texts(code, kind, order) for code, _name in settings.LANGUAGES]
    to_pay = kind == Kind.CONFIRMATION and not _is_free(order)
    context = {
        "order": order,
        "lines": order.lines.all(),
        "others": others,
        "fees": _fees(order),
        # What the total leaves out: a part that was cancelled before the payment.
        "cancelled": order.cancelled_amount,
        "texts": texts,
        "details": _details(order),
        "link": settings.PUBLIC_URL and settings.PUBLIC_URL + order.get_absolute_url(),
        "to_pay": to_pay,
        "pay_before": _deadline(order),
        "tone": TONES[Kind.PAID] if _is_free(order) else TONES[kind],
    }
    with override(settings.LANGUAGE_CODE):  # amounts are the same from whatever process
        text = render_to_string("mail/mail.txt", context)
        html = render_to_string("mail/mail.html", context)
    ready = EmailMultiAlternatives(
        # A pasted product name may contain a line break, which a header cannot.
        " ".join(" / ".join(text["heading"] for text in texts).split()),
        text,
        settings.DEFAULT_FROM_EMAIL,
        [order.buyer.email] if is_mailable(order.buyer.email) else [],
        headers={"Message-ID": message_id(f"{kind}.{order.pk}{again and f'.{again}'}")},
    )
    ready.attach_alternative(html, "text/html")
    return ready


def message_id(name: str) -> str:
    """Return the Message-ID of a mail that has a name in this database: `confirmation.17`.

    The domain is the database's identity below the domain of the shop's sender, or below one of no
    host if that cannot be written in a header.
    """
    domain = parseaddr(settings.DEFAULT_FROM_EMAIL)[1].rpartition("@")[2]
    try:
        domain = domain.encode("idna").decode("ascii")
    except UnicodeError:
        domain = ""
    return f"<{name}@{identity()}.{domain or 'invalid'}>"


def notices(order: Order) -> list[tuple[str, str]]:
    """Return what the mails about an order say so far, in the current language.

    Args:
        order: with its lines and its events.

    Returns:
        Heading and text of each, in the order of their events.
    """
    kinds = [Kind.CONFIRMATION] if settings.PAYMENT_PROVIDER else []
    kinds += [kind for event in order.events.all() if (kind := occasion(event)) is not None]
    # The first and the second of a free order say the same.
    return list(dict.fromkeys(_sentences(kind, order) for kind in kinds))


def _is_free(order: Order) -> bool:
    """Return whether there is nothing to pay, so that the order was confirmed at once."""
    return not order.amount and order.status in {Order.Status.PAID, Order.Status.FULFILLED}


def _was_drawn(order: Order) -> bool:
    return any(line.sale.kind == Sale.Kind.DRAW for line in order.lines.all())


def _sentences(kind: Kind, order: Order) -> tuple[str, str]:
    """Return heading and text of a mail in the current language."""
    others = {} if settings.PAYMENT_PROVIDER else WITHOUT_PAYMENTS
    heading, body = others.get(kind, TEXTS[kind])
    if _is_free(order) and kind in {Kind.CONFIRMATION, Kind.PAID}:
        heading, body = WITHOUT_PAYMENTS[Kind.PAID]
    elif kind == Kind.CONFIRMATION and _was_drawn(order):
        heading, body = DRAWN
    values = {
        "number": order.pk,
        "contents": order.contents,
        "deadline": _deadline(order),
    }
    return str(heading) % values, str(body) % values


def _texts(language: str, kind: Kind, order: Order) -> dict[str, Any]:
    with override(language):
        heading, body = _sentences(kind, order)
        return {
            "language": language,
            "heading": heading,
            "body": body,
            "others": gettext("Also about these orders"),
            "shop": gettext(settings.SHOP_NAME),
            "order": gettext("Order"),
            "cancelled": gettext("Cancelled"),
            "total": gettext("Total"),
            "tax": gettext("Tax included"),
            "pay_before": gettext("Pay before"),
            "refunded": gettext("Refunded"),
            "button": gettext("Pay now")
            if kind == Kind.CONFIRMATION and not _is_free(order)
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


def _fees(order: Order) -> list[tuple[list[dict[str, str]], OrderFee]]:
    """Return the order's fees, each with its name in all languages."""
    named = []
    for fee in order.fee_lines:
        names = []
        for language, _name in settings.LANGUAGES:
            with override(language):
                names.append({"language": language, "label": fee.label})
        named.append((names, fee))
    return named


def _deadline(order: Order) -> str:
    return f"{localtime(order.pay_before):%Y-%m-%d %H:%M %Z}"
