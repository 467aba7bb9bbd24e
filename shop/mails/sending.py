"""Send mails, which are messages of the outbox in a queue of their own: a mail server may hang.

A mail about an order is one message per order and kind. It is done once the mail server has taken
the mail; after a crash in between, the mail is sent twice with the same Message-ID.

An order's mail goes only to a confirmed address (`shop.accounts.addresses`); without one the
message is done, and the order's page says what the mail would have said. Mails of one kind to one
address within `SHOP_MAIL_INTERVAL` are sent as one, when that time is over. One that staff asked
for again (`shop.staff.orders.resend`) is a message of its own, and is sent at once.

A request for a new password, or for the confirmation of an address, only leaves a message with
users' ids: a mail server that hangs delays no page, and the answer takes about as long whether the
address is known or not. The link's token is made when the mail is sent and is stored nowhere. Such
a mail is sent at most once: a second link that nobody asked for looks like an attack. If the mail
server does not say whether it took the mail, or the worker is killed meanwhile, it is not repeated,
and the user may ask for another one.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import timedelta
from functools import partial
from smtplib import SMTPException, SMTPRecipientsRefused, SMTPResponseException
from typing import Any
from uuid import uuid4

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
from inventory.outbox import NoEffect
from shop.accounts import addresses
from shop.accounts.models import PendingAddress, User
from shop.mails import rendering
from shop.mails.rendering import Kind
from shop.operating import metrics
from shop.orders.models import Order

log = logging.getLogger(__name__)

QUEUE = addresses.QUEUE

MAX_MAILS = 50
"""Mails per connection: those that fail when it breaks."""

MAX_TOGETHER = 50
"""Orders of an address, the newest, whose mails of one kind are sent as one."""

MAX_SENDING = 300
"""Seconds for one mail, at a server that hardly answers (EMAIL_TIMEOUT is per answer)."""


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
        metrics.MAILS.labels("postponed").inc()
        log.warning("the mail server does not answer (%s); the mails wait", error)
        return 0
    orders = _read(payload["order"] for payload in waiting if "order" in payload)
    try:
        return outbox.deliver(
            {topic(kind): partial(_send, server, orders, kind) for kind in Kind},
            at_most_once={RESET: send_reset, addresses.CONFIRM: send_confirmation},
            queue=QUEUE,
            limit=MAX_MAILS,
            seconds=seconds,
        )
    finally:
        server.close()


def _read(orders: Iterable[int]) -> dict[int, Order]:
    # Names in all languages, because mails are.
    read = Order.objects.with_lines().prefetch_related("lines__sale__product__texts")
    return read.select_related("buyer").in_bulk(list(orders))


def _send(server: BaseEmailBackend, orders: Mapping[int, Order], kind: Kind, payload: Any) -> None:
    # The server would end a transaction that is idle for longer, and the mail would be sent again.
    # This one has locked only the mail's message, and those of the orders that it lists too.
    with connection.cursor() as cursor:
        cursor.execute(f"SET LOCAL idle_in_transaction_session_timeout = '{MAX_SENDING}s'")
    about = payload["order"]
    order = orders.get(about) or _read([about])[about]  # it became due meanwhile
    if not addresses.is_mailable(order.buyer.email):
        metrics.MAILS.labels("without_address").inc()
        return
    again = payload.get("again", "")
    others = [] if again else _gather(kind, order)
    mail = rendering.message(kind, order, others, again=again)
    try:
        server.send_messages([mail])
    except Exception:
        metrics.MAILS.labels("failed").inc()
        raise
    metrics.MAILS.labels("sent").inc()


def _gather(kind: Kind, order: Order) -> list[Order]:
    """Return the other orders that a mail is about, and mark their messages done.

    Raises:
        Later: a mail of this kind went to the address a short time ago.
    """
    interval = timedelta(seconds=settings.SHOP_MAIL_INTERVAL)
    if not interval:
        return []
    pause = addresses.claim(order.buyer.email, f"order {kind}", interval)
    if pause:
        raise outbox.Later(pause)
    same = Order.objects.filter(buyer__email__iexact=order.buyer.email).exclude(pk=order.pk)
    latest = same.order_by("-pk").values_list("pk", flat=True)[:MAX_TOGETHER]
    taken = outbox.take_along(topic(kind), map(str, latest))
    return sorted(_read(mail["order"] for mail in taken).values(), key=lambda found: -found.pk)


RESET = "accounts.password_reset"

MAX_ACCOUNTS = 10
"""Accounts of one address that a mail for a new password lists."""


def send_reset(payload: Any) -> None:
    """Send a mail with links that set new passwords; the handler of the outbox's messages.

    Args:
        payload: `{"users": [ids]}`, all of one address; earlier versions wrote `{"user": id}`.

    Raises:
        NoEffect: the mail server did not take it; the message is tried again.
    """
    wanted = payload.get("users") or [payload["user"]]
    _send_once(lambda: _reset_mail(wanted))


def send_confirmation(payload: Any) -> None:
    """Send a mail whose link confirms a typed address; the handler of the outbox's messages.

    Args:
        payload: `{"user": id}`.

    Raises:
        NoEffect: the mail server did not take it; the message is tried again.
    """
    _send_once(lambda: _confirmation_mail(payload["user"]))


def _send_once(write: Callable[[], EmailMessage | None]) -> None:
    server = get_connection()
    try:
        mail = write()
        if mail is None:
            return
        server.open()
    except Exception as error:
        raise NoEffect from error
    try:
        server.send_messages([mail])
    except (SMTPResponseException, SMTPRecipientsRefused) as error:
        raise NoEffect from error
    finally:
        server.close()


def _reset_mail(wanted: Sequence[int]) -> EmailMessage | None:
    users = User.objects.filter(pk__in=wanted, is_active=True).order_by("pk")
    found = [user for user in users if addresses.is_mailable(user.email)]
    # An account whose address changed meanwhile is not that of the others any more.
    found = [user for user in found if user.email.casefold() == found[0].email.casefold()]
    if not found:
        return None
    links = [(user.get_username(), _reset_link(user)) for user in found]
    languages = [_reset_texts(language) for language, _name in settings.LANGUAGES]
    return _mail_with_links(found[0].email, languages, links)


def _reset_link(user: User) -> str:
    uid = urlsafe_base64_encode(force_bytes(user.pk))
    token = default_token_generator.make_token(user)
    return settings.PUBLIC_URL + reverse("password_reset_confirm", args=[uid, token])


def _reset_texts(language: str) -> dict[str, str]:
    hours = settings.PASSWORD_RESET_TIMEOUT // 3600
    with override(language):
        return {
            "subject": gettext("Choose a new password"),
            "body": gettext(
                "We were asked for a new password for the account of this address. The link below "
                "its name works once, for %(hours)s hours. If it was not you, ignore this mail: "
                "your password stays as it is."
            )
            % {"hours": hours},
        }


def _confirmation_mail(user: int) -> EmailMessage | None:
    waiting = PendingAddress.objects.filter(user=user, user__is_active=True).first()
    if waiting is None or not addresses.is_mailable(waiting.address):
        return None
    token = addresses.make_link_token(user, waiting.address)
    # Without the account's name: anybody may choose one, and it would be read by a stranger.
    links = [("", settings.PUBLIC_URL + reverse("confirm-address", args=[token]))]
    languages = [_confirmation_texts(language) for language, _name in settings.LANGUAGES]
    return _mail_with_links(waiting.address, languages, links)


def _confirmation_texts(language: str) -> dict[str, str]:
    with override(language):
        return {
            "subject": gettext("Confirm your email address"),
            "body": gettext(
                "This address was given for an account at %(shop)s. Open the link below to get "
                "mails about your orders. It works for %(days)s days. If it was not you, ignore "
                "this mail: you will get no others."
            )
            % {"shop": gettext(settings.SHOP_NAME), "days": addresses.LINK_VALID.days},
        }


def _mail_with_links(
    address: str, languages: Sequence[dict[str, str]], links: Sequence[tuple[str, str]]
) -> EmailMessage:
    """Write a mail: what it says in each language, then the links, each below its name."""
    subject = " ".join(" / ".join(language["subject"] for language in languages).split())
    text = render_to_string("mail/links.txt", {"languages": languages, "links": links})
    headers = {"Message-ID": rendering.message_id(f"link.{uuid4().hex}")}
    return EmailMessage(subject, text, settings.DEFAULT_FROM_EMAIL, [address], headers=headers)
