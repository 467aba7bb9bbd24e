"""What a mail to a buyer looks like: subject, text and HTML.

In both languages at once: an order does not know which its buyer reads, and asking on the way to
it would cost every purchase something.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.core.mail import EmailMultiAlternatives
from django.template.loader import render_to_string

from shop import messages
from shop.mails.models import Mail
from shop.orders.models import Order

Kind = Mail.Kind

TONES = {
    Kind.CONFIRMATION: "accent",
    Kind.PAID: "good",
    Kind.EXPIRED: "dull",
    Kind.REFUNDED: "good",
    Kind.TOO_LATE: "warn",
}
"""The colour of a mail's head, by kind."""


@dataclass(frozen=True, slots=True)
class Letter:
    """A mail as its reader sees it."""

    recipient: str
    subject: str
    text: str
    html: str


def letter(mail: Mail) -> Letter:
    """Write a mail, from its order as it is now."""
    order = mail.order
    context = _context(Kind(mail.kind), order)
    return Letter(
        recipient=order.buyer.email or f"{order.buyer.username}@localhost",
        # A product's name may have been pasted with its line break, which a header cannot hold.
        subject=" ".join(f"{context['heading'].en} / {context['heading'].zh}".split()),
        text=render_to_string("mail/mail.txt", context),
        html=render_to_string("mail/mail.html", context),
    )


def message(mail: Mail) -> EmailMultiAlternatives:
    """A mail ready to be sent, under an id made from its row: sent twice, it is shown once."""
    written = letter(mail)
    ready = EmailMultiAlternatives(
        written.subject,
        written.text,
        settings.DEFAULT_FROM_EMAIL,
        [written.recipient],
        headers={"Message-ID": f"<{mail.kind}.{mail.order_id}@flash-sale>"},
    )
    ready.attach_alternative(written.html, "text/html")
    return ready


def _context(kind: Kind, order: Order) -> dict[str, Any]:
    said = messages.MAILS[kind]
    figures = {
        "order": order.pk,
        "what": messages.listing(
            (line.quantity, line.sale.product.name) for line in order.lines.all()
        ),
        "pay_before": f"{order.pay_before:%Y-%m-%d %H:%M} UTC",
    }
    return {
        "order": order,
        "lines": order.lines.all(),
        "heading": said.heading.with_values(**figures),
        "body": said.body.with_values(**figures),
        "says": messages.MAIL_LABELS,
        "button": messages.MAIL_LABELS["pay" if kind == Kind.CONFIRMATION else "look"],
        "link": settings.PUBLIC_URL and settings.PUBLIC_URL + order.get_absolute_url(),
        "to_pay": kind == Kind.CONFIRMATION,
        "pay_before": figures["pay_before"],
        "tone": TONES[kind],
    }
