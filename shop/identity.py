"""An identity of this database, so that what leaves it is not taken for another database's.

Ids of orders begin at 1 in every database. Two shops that use one account at the payment provider
(staging and production, or a database made anew) would send it the same idempotency keys, and one
mail's Message-ID would be that of another. The identity is part of these. It is made once, kept in
the database, and followed by a new one when the database was restored to an earlier point
(`manage.py after_restore`).
"""

from __future__ import annotations

import secrets

from django.db import models
from django.db.models.functions import Now


def new_identity() -> str:
    """Return 64 random bits in hexadecimal."""
    return secrets.token_hex(8)


class Identity(models.Model):
    """An identity that this database has or had. The newest is in use; the others are kept, since
    payments that were begun under them are still ours.
    """

    value = models.CharField(max_length=16, unique=True, default=new_identity)
    since = models.DateTimeField(db_default=Now())

    class Meta:
        verbose_name_plural = "identities"

    def __str__(self) -> str:
        return self.value


def identity() -> str:
    """Return the identity in use: 16 hexadecimal digits. One query.

    The migration makes the first one; a database that was emptied gets another one here.
    """
    newest = Identity.objects.order_by("-pk").first()
    return (newest or Identity.objects.create()).value


def renew() -> str:
    """Make a new identity and return it; processes use it from their next payment or mail on."""
    return Identity.objects.create().value
