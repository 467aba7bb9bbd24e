"""Users with the normal form of their names, their e-mail addresses, and the generations of their
tokens.

`Jessica`, `jessica` and `JEẞICA` in full-width letters look alike or are typed for one another, so
they are one account. Accounts are stored under the normal form (the database checks it), and every
name that is typed is converted before it is looked up or counted.
"""

from __future__ import annotations

import unicodedata
from typing import Any

from django.contrib.auth.models import AbstractUser
from django.db import models
from django.db.models.functions import Now, Upper
from django.utils.translation import gettext


def normal(name: str) -> str:
    """Return the normal form of a name: case folding and Unicode's NFKC.

    One may undo the other (NFKC turns `℡` into `TEL`), so both repeat until nothing changes.
    """
    while (folded := unicodedata.normalize("NFKC", name.casefold())) != name:
        name = folded
    return name


class User(AbstractUser):
    """An account of a buyer or an operator. A project adds its fields here.

    The name is stored in its normal form, which the database checks.

    `email` is a confirmed address: mails go to it. What a buyer types is a `PendingAddress` until
    the link in a mail is opened; what an operator or a program writes here counts as confirmed.
    """

    class Meta(AbstractUser.Meta):  # type: ignore[name-defined,misc]
        # The lookup of a password reset and of a mail's repeats: by address, in any case.
        indexes = (models.Index(Upper("email"), name="accounts_user_email_upper"),)
        permissions = (
            ("erase_user", "Can erase buyers"),
            ("hand_out_user", "Can hand out buyers' data"),
        )

    @classmethod
    def normalize_username(cls, username: Any) -> Any:
        """Return the normal form of a name; Django's own forms and commands ask for it."""
        return normal(username) if isinstance(username, str) else username


class TokenGeneration(models.Model):
    """The generation of a user's tokens; tokens of an earlier one are revoked.

    A trigger on the users' table starts the next generation when an account is deactivated or
    deleted or gets a new password, whatever changes it. A user without a row is in generation 0.
    The row outlives its user: ids are not given out again.
    """

    buyer = models.BigIntegerField(primary_key=True)
    number = models.PositiveIntegerField()
    began = models.DateTimeField(db_index=True)

    def __str__(self) -> str:
        return gettext("%(number)s of user %(user)s") % {"number": self.number, "user": self.buyer}


class PendingAddress(models.Model):
    """An address that a buyer typed and has not confirmed. Only the mail that asks for the
    confirmation goes to it. See `shop.accounts.addresses`.
    """

    user = models.OneToOneField(
        User, on_delete=models.CASCADE, primary_key=True, related_name="pending_address"
    )
    address = models.EmailField()
    since = models.DateTimeField(db_default=Now(), db_index=True)

    class Meta:
        verbose_name_plural = "pending addresses"

    def __str__(self) -> str:
        return gettext("pending address of user %(user)s") % {"user": self.user_id}


class AddressMails(models.Model):
    """How many mails of one kind an address got since a moment.

    The address is stored as a keyed hash. The daily clean-up deletes old rows.
    """

    digest = models.CharField(max_length=64, primary_key=True)
    since = models.DateTimeField(db_index=True)
    number = models.PositiveIntegerField()

    class Meta:
        verbose_name_plural = "address mails"

    def __str__(self) -> str:
        return gettext("%(number)s mails since %(since)s") % {
            "number": self.number,
            "since": self.since,
        }
