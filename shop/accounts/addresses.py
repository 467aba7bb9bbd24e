"""E-mail addresses: which can get mail, which are confirmed, and how many mails one may get.

Anybody can type anybody's address, so a typed address is only pending: the one mail that goes to
it asks for a confirmation by a link. `User.email` holds confirmed addresses. Two limits protect
whoever owns an address. Both count what reaches the mailbox, over all accounts and spellings:

- mails that anybody can cause (confirmations, password resets): `MAX_REQUESTED` per hour;
- mails of one kind about orders: one within `settings.SHOP_MAIL_INTERVAL` seconds. What follows
  within that time is sent together when it is over.

The counts are kept in the database, in the transaction that causes or sends the mail.
"""

from __future__ import annotations

from contextlib import suppress
from datetime import timedelta

from django.core import signing
from django.core.exceptions import ValidationError
from django.core.mail.message import sanitize_address
from django.core.validators import validate_email
from django.db import connection, transaction
from django.utils.crypto import salted_hmac
from django.utils.translation import gettext_lazy as _

from inventory import outbox
from shop.accounts.models import PendingAddress, User, normal

MAX_REQUESTED = 3
"""Mails per address and hour that anybody can cause: confirmations and password resets together."""

REQUEST_WINDOW = timedelta(hours=1)

LINK_VALID = timedelta(days=3)
"""How long the link of a confirmation can be used; a pending address is deleted afterwards."""

CONFIRM = "accounts.confirm_address"
"""Topic of the outbox's message that sends the link; handled in `shop.mails.sending`."""

QUEUE = "mail"
"""The outbox's queue of mails."""

_SALT = "shop.accounts.confirm_address"
_ORDINARY_PLUS = "+"
_GMAIL = {"gmail.com", "googlemail.com"}

_COUNT = """
INSERT INTO accounts_addressmails AS known (digest, since, number)
VALUES (%(digest)s, clock_timestamp(), 1)
ON CONFLICT (digest) DO UPDATE SET
    number = CASE WHEN known.since <= clock_timestamp() - %(seconds)s * interval '1 second'
                  THEN 1 ELSE known.number + 1 END,
    since = CASE WHEN known.since <= clock_timestamp() - %(seconds)s * interval '1 second'
                 THEN clock_timestamp() ELSE known.since END
RETURNING number
"""

_LEFT = """
SELECT extract(epoch FROM since + %(seconds)s * interval '1 second' - clock_timestamp())
FROM accounts_addressmails WHERE digest = %(digest)s
"""


def validate_mailable(address: str) -> None:
    """Refuse an address that mail servers cannot be relied on to take.

    A local part with letters beyond ASCII needs SMTPUTF8 at every server on the way. Django's own
    check lets some of these letters through, such as the dotless i.

    Raises:
        ValidationError: with a text for the form.
    """
    local = address.rpartition("@")[0]
    if not local.isascii():
        raise ValidationError(
            _("The part before the @ may contain only letters without accents, digits and signs."),
            code="local_part",
        )
    if not is_mailable(address):
        raise ValidationError(_("Enter a valid email address."), code="invalid")


def is_mailable(address: str) -> bool:
    """Return whether a mail can be sent to an address at all; an empty one is none."""
    local = address.rpartition("@")[0]
    if not (local and local.isascii()):
        return False
    try:
        validate_email(address)
        sanitize_address(address, "utf-8")
    except (ValidationError, ValueError):  # a UnicodeError, of the domain, is a ValueError
        return False
    return True


def normal_address(address: str) -> str:
    """Return the form of an address under which its mails are counted.

    `Ann+sale@Example.com` and `ann@example.com` end in one mailbox, as does `a.n.n@gmail.com` in
    that of `ann@gmail.com`.
    """
    local, _at, domain = normal(address.strip()).rpartition("@")
    with suppress(UnicodeError):  # else no mail server has this domain; it is counted as it is
        domain = domain.encode("idna").decode("ascii")
    local = local.partition(_ORDINARY_PLUS)[0] or local
    if domain in _GMAIL:
        local, domain = local.replace(".", ""), "gmail.com"
    return f"{local}@{domain}"


def digest(address: str, kind: str) -> str:
    """Return the keyed hash under which the mails of a kind to an address are counted."""
    text = f"{kind} {normal_address(address)}"
    return salted_hmac("shop.accounts.addresses", text, algorithm="sha256").hexdigest()


def count(address: str, kind: str, window: timedelta) -> int:
    """Count a mail in the current transaction; return the number in the window, with this one."""
    with connection.cursor() as cursor:
        cursor.execute(_COUNT, {"digest": digest(address, kind), "seconds": window.total_seconds()})
        return int(cursor.fetchone()[0])


def allows_request(address: str) -> bool:
    """Count a mail that anybody can cause; return whether it may be sent."""
    return count(address, "requested", REQUEST_WINDOW) <= MAX_REQUESTED


def claim(address: str, kind: str, interval: timedelta) -> timedelta:
    """Claim the sending of a mail of a kind to an address until the transaction ends.

    Returns:
        Zero if it may be sent now, and it is counted; else how long to wait.
    """
    key = digest(address, kind)
    with connection.cursor() as cursor:
        # Not the row itself: the first mail has none, and two workers would both send it.
        cursor.execute("SELECT pg_try_advisory_xact_lock(%s)", [_lock_number(key)])
        if not cursor.fetchone()[0]:
            return timedelta(seconds=2)
        cursor.execute(_LEFT, {"digest": key, "seconds": interval.total_seconds()})
        row = cursor.fetchone()
    if row is not None and row[0] > 0:
        return timedelta(seconds=float(row[0]))
    count(address, kind, interval)
    return timedelta()


def _lock_number(key: str) -> int:
    return int(key[:16], 16) - 2**63


@transaction.atomic
def propose(user: User, address: str) -> None:
    """Note a typed address, and let a mail ask for its confirmation; no address takes it back."""
    if not address:
        PendingAddress.objects.filter(user=user).delete()
        return
    PendingAddress.objects.update_or_create(user=user, defaults={"address": address})
    if allows_request(address):
        outbox.emit(CONFIRM, {"user": user.pk}, queue=QUEUE)


def pending(user: User) -> str:
    """Return the address that waits for its confirmation; empty if there is none."""
    found = PendingAddress.objects.filter(user=user).values_list("address", flat=True)
    return found.first() or ""


def make_link_token(user: int, address: str) -> str:
    """Return the signed end of a link that confirms a user's address; it contains no address."""
    return signing.dumps([user, digest(address, "link")[:32]], salt=_SALT)


def find(token: str) -> PendingAddress | None:
    """Return the pending address that a link's token confirms; None if it is old or replaced."""
    try:
        user, wanted = signing.loads(token, salt=_SALT, max_age=LINK_VALID)
    except (signing.BadSignature, ValueError, TypeError):
        return None
    found = PendingAddress.objects.select_related("user").filter(user=user, user__is_active=True)
    waiting = found.first()
    if waiting is None or digest(waiting.address, "link")[:32] != wanted:
        return None
    return waiting


@transaction.atomic
def confirm(waiting: PendingAddress) -> None:
    """Make a pending address the user's own; mails go to it from now on."""
    deleted, _models = PendingAddress.objects.filter(
        pk=waiting.pk, address=waiting.address
    ).delete()
    if deleted:
        User.objects.filter(pk=waiting.pk).update(email=waiting.address)
