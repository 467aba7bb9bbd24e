"""Synthetic buyers for load tests."""

from __future__ import annotations

from uuid import uuid4

from shop.accounts import tokens
from shop.accounts.models import User


def create_synthetic_buyers(count: int) -> list[str]:
    """Create buyers without passwords, usable only by token.

    Args:
        count: how many.

    Returns:
        A token for each.
    """
    group = uuid4().hex[:12]
    users = User.objects.bulk_create(
        [_buyer(f"buyer-{group}-{number}") for number in range(count)], batch_size=5000
    )
    return [tokens.issue(user.pk) for user in users]


def _buyer(name: str) -> User:
    # An address each: a proof looks whether every mail goes to its buyer.
    return User(username=name, password="!", email=f"{name}@example.com")
