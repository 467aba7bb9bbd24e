"""What both peers need and no shop can do without: buyers' tokens and the answers."""

from __future__ import annotations

import hmac
import os
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any

KEY = "PEER_KEY"
"""Environment variable with the key that signs tokens."""

HOLD = timedelta(minutes=15)
CURRENCY = "CNY"

UNAUTHORIZED = {"status": 401, "code": "unauthorized"}
NOT_FOUND = {"status": 404, "code": "not_found"}
SOLD_OUT = {"status": 409, "code": "sold_out"}
KEY_REUSED = {"status": 422, "code": "idempotency_key_reused"}
PROBLEM = "application/problem+json"


class BadToken(Exception):
    """The token is missing or forged."""


def issue(buyer: int, key: str) -> str:
    """Make a token for a buyer."""
    return f"{buyer}.{_signature(str(buyer), key)}"


# Like the shop, verify each signature once.
@lru_cache(maxsize=20_000)
def buyer_of(authorization: str) -> int:
    """Return the buyer of an `Authorization` header.

    Raises:
        BadToken: it has no valid token.
    """
    buyer, _, signature = authorization.removeprefix("Bearer ").partition(".")
    if not hmac.compare_digest(signature, _signature(buyer, os.environ[KEY])):
        raise BadToken
    return int(buyer)


def order(number: int, sale: int, quantity: int, amount: int, created: datetime) -> dict[str, Any]:
    """Return an order as the shop answers it."""
    money = {"amount": amount, "currency": CURRENCY}
    return {
        "id": number,
        "sale": sale,
        "quantity": quantity,
        "amount": money,
        "status": "awaiting_payment",
        "pay_before": (created + HOLD).isoformat(),
        "created": created.isoformat(),
        "refunded": {"amount": 0, "currency": CURRENCY},
        "lines": [{"sale": sale, "quantity": quantity, "returned": 0, "amount": money}],
    }


def _signature(buyer: str, key: str) -> str:
    return hmac.new(key.encode(), buyer.encode(), "sha256").hexdigest()
