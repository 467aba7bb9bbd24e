"""Send mails, which are messages of the outbox in a queue of their own: a mail server may hang.

A mail about an order is one message per order and kind. It is done once the mail server has taken
the mail; after a crash in between, the mail is sent twice with the same Message-ID.

A request for a new password only leaves a message with the user's id, so it takes equally long
whether the address is known or not, and a mail server that hangs delays no page. The link's token
is made when the mail is sent and is stored nowhere. That mail is sent at most once: a second link
that nobody asked for looks like an attack. If the mail server does not say whether it took the
mail, or the worker is killed meanwhile, it is not repeated, and the user may ask for another one.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable, Mapping
from functools import partial
from smtplib import SMTPException, SMTPRecipientsRefused, SMTPResponseException
from typing import Any

from django.conf import settings
from django.contrib.auth.tokens import default_token_generator
from django.core.mail import EmailMessage, get_connection
from django.core.mail.backends.base import BaseEmailBackend
from django.db import connection
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils.encoding import force_bytes
from django.utils.http import urlsafe_base64_encode
from django.utils.translation import gettext, override

from inventory import outbox
from inventory.metrics import metrics
from inventory.outbox import NoEffect
from shop.accounts.models import User
from shop.mails import rendering
from shop.mails.rendering import Kind
from shop.orders.models import Order

log = logging.getLogger(__name__)

QUEUE = "mail"

MAX_MAILS = 50
"""Mails per connection: those that fail when it breaks."""

MAX_SENDING = "5min"
"""For one mail, at a server that hardly answers (EMAIL_TIMEOUT is per answer)."""


def topic(kind: Kind) -> str:
    """Return the topic of messages that send a mail; their key is the order's id."""
    return f"mails.{kind}"


def enqueue(kind: Kind, orders: Iterable[int]) -> None:
    """Let each order's buyer get a mail, once however often this is called."""
    mails = {str(order): {"order": order} for order in orders}
    outbox.emit_once(topic(kind), mails, queue=QUEUE)


def send_mails(seconds: float = math.inf) -> int:
    """Send some mails for at most that long; return their number. Workers may do so concurrently.

    A mail that fails is put off and does not block the others. While the mail server does not
    answer, all mails stay as they are.
    """
    waiting = outbox.upcoming(QUEUE, MAX_MAILS)
    if not waiting:
        return 0
    server = get_connection()
    try:
        server.open()
    except (OSError, SMTPException) as error:
        metrics.count("mails", "postponed")
        log.warning("the mail server does not answer (%s); the mails wait", error)
        return 0
    orders = _read(payload["order"] for payload in waiting if "order" in payload)
    try:
        return outbox.deliver(
            {topic(kind): partial(_send, server, orders, kind) for kind in Kind},
            at_most_once={RESET: send_reset},
            queue=QUEUE,
            limit=MAX_MAILS,
            seconds=seconds,
        )
    finally:
        server.close()


def _read(orders: Iterable[int]) -> dict[int, Order]:
    return Order.objects.with_lines().select_related("buyer").in_bulk(list(orders))


def _send(server: BaseEmailBackend, orders: Mapping[int, Order], kind: Kind, payload: Any) -> None:
    # The server would end a transaction that is idle for longer, and the mail would be sent again.
    # This one has locked only the mail's message.
    with connection.cursor() as cursor:
        cursor.execute(f"SET LOCAL idle_in_transaction_session_timeout = '{MAX_SENDING}'")
    about = payload["order"]
    order = orders.get(about) or _read([about])[about]  # it became due meanwhile
    try:
        server.send_messages([rendering.message(kind, order)])
    except Exception:
        metrics.count("mails", "failed")
        raise
    metrics.count("mails", "sent")


RESET = "accounts.password_reset"


def send_reset(payload: Any) -> None:
    """Send a mail with a link that sets a new password; the handler of the outbox's messages.

    Raises:
        NoEffect: the mail server did not take it; the message is tried again.
    """
    server = get_connection()
    try:
        user = User.objects.filter(pk=payload["user"], is_active=True).exclude(email="").first()
        if user is None:
            return
        mail = _reset_mail(user)
        server.open()
    except Exception as error:
        raise NoEffect from error
    try:
        server.send_messages([mail])
    except (SMTPResponseException, SMTPRecipientsRefused) as error:
        raise NoEffect from error
    finally:
        server.close()


def _reset_mail(user: User) -> EmailMessage:
    uid = urlsafe_base64_encode(force_bytes(user.pk))
    token = default_token_generator.make_token(user)
    link = settings.PUBLIC_URL + reverse("password_reset_confirm", args=[uid, token])
    languages = [_reset_texts(language, user) for language, _name in settings.LANGUAGES]
    subject = " / ".join(each["subject"] for each in languages)
    text = render_to_string("mail/password_reset.txt", {"languages": languages, "link": link})
    return EmailMessage(subject, text, settings.DEFAULT_FROM_EMAIL, [user.email])


def _reset_texts(language: str, user: User) -> dict[str, str]:
    hours = settings.PASSWORD_RESET_TIMEOUT // 3600
    with override(language):
        return {
            "subject": gettext("Choose a new password"),
            "body": gettext(
                "We were asked for a new password for your account %(name)s. The link below "
                "works once, for %(hours)s hours. If it was not you, ignore this mail: your "
                "password stays as it is."
            )
            % {"name": user.get_username(), "hours": hours},
        }
