"""The provider over HTTP, as the demo's speaks it (`lab/psp`); the pattern for a real one.

Nothing is tried again here. Whoever asked knows the idempotency key and whether a second attempt
is worth it; a hidden one would hide how long the buyer waits.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any, TypeVar, get_args
from urllib.parse import quote

import urllib3
from django.conf import settings

from inventory.selling.commit import lend_connections
from shop.payments.provider import (
    Intent,
    IntentStatus,
    PaymentDeclined,
    PaymentUnknown,
    Provider,
    ProviderRefund,
    RefundStatus,
)

T = TypeVar("T")

TIMEOUT = urllib3.Timeout(connect=1.0, read=5.0)
"""Seconds. A buyer waits for the answer; after that, a webhook or a sweep finds out."""

CONNECTIONS = 64
"""Of a process. More than that wait for one, no longer than for an answer."""

DEFINITE = {402, 409}
"""Refusals that say that nothing was moved and nothing will be. Not among them: 400, 401, 403 and
404, for a mistake of ours (a wrong key, another provider's address) says nothing about the buyer's
money; and 422, for the first request under that key may have moved some."""

MINOR = 100
"""Smallest units of money in one of the shop's currency."""


class HttpProvider(Provider):
    """Speaks JSON; a bearer key, an idempotency key, amounts in the smallest unit of money."""

    def create_intent(self, *, order: int, amount: Decimal, key: str) -> Intent:
        """Announce a payment."""
        body = {"order": order, "amount": to_minor(amount)}
        return _read(_intent, _call("POST", "payment_intents", key=key, body=body))

    def capture(self, intent: str, *, key: str) -> Intent:
        """Take the money."""
        path = f"payment_intents/{quote(intent, safe='')}/capture"
        return _read(_intent, _call("POST", path, key=key, body={}))

    def cancel(self, intent: str, *, key: str) -> Intent:
        """Give up a payment. One that is in processing is declined: its outcome must be awaited."""
        path = f"payment_intents/{quote(intent, safe='')}/cancel"
        return _read(_intent, _call("POST", path, key=key, body={}))

    def refund(self, intent: str, *, amount: Decimal, key: str) -> ProviderRefund:
        """Give money back."""
        body = {"intent": intent, "amount": to_minor(amount)}
        return _read(_refund, _call("POST", "refunds", key=key, body=body))

    def find(self, order: int) -> list[Intent]:
        """Every payment of an order, oldest first."""
        document = _call("GET", f"payment_intents?order={int(order)}")
        return _read(lambda found: [_intent(each) for each in found["data"]], document)


def to_minor(amount: Decimal) -> int:
    """An amount in the smallest unit of money.

    Raises:
        ValueError: there is less than one unit in it.
    """
    units = amount * MINOR
    if units != int(units):
        raise ValueError(f"{amount} is no whole number of the smallest unit of money")
    return int(units)


def intent_of(document: dict[str, Any]) -> Intent:
    """A payment as the provider writes it, in answers and webhooks.

    Raises:
        ValueError: it is none.
    """
    return _checked(_intent, document)


def refund_of(document: dict[str, Any]) -> ProviderRefund:
    """A refund as the provider writes it, in answers and webhooks.

    Raises:
        ValueError: it is none.
    """
    return _checked(_refund, document)


def ledger_lines() -> Iterator[dict[str, Any]]:
    """Everything that the provider says it moved, oldest first.

    Yields:
        ``id``, ``order``, ``intent``, ``operation`` (capture or refund), and ``amount`` in the
        smallest unit of money.

    Raises:
        PaymentUnknown: it does not tell, or not all of it.
    """
    try:
        response = _client().request(
            *("GET", f"{settings.PSP_URL}/v1/ledger"),
            headers=_headers(),
            timeout=TIMEOUT,
            retries=False,
            preload_content=False,
        )
        try:
            yield from _complete(response)
        finally:
            response.close()
            response.release_conn()
    except (urllib3.exceptions.HTTPError, ValueError) as error:
        raise PaymentUnknown(f"no ledger: {error}") from error


def _complete(response: urllib3.BaseHTTPResponse) -> Iterator[dict[str, Any]]:
    """The ledger's lines; its last one says how many there are, so that none is missed."""
    if response.status != 200:
        raise ValueError(f"answered with {response.status}")
    count, end = 0, None
    for text in response:
        line = json.loads(text)
        if "lines" in line:
            end = line["lines"]
        else:
            count += 1
            yield line
    if end != count:
        raise ValueError(f"broken off after {count} lines")


def _call(method: str, path: str, *, key: str = "", body: Any = None) -> Any:
    """Ask; the document of a definite yes."""
    # Of this wait the database need know nothing: others can have the connection.
    lend_connections()
    try:
        answer = _client().request(
            *(method, f"{settings.PSP_URL}/v1/{path}"),
            body=None if body is None else json.dumps(body).encode(),
            headers=_headers(key),
            timeout=TIMEOUT,
            pool_timeout=TIMEOUT.read_timeout,
            retries=False,
        )
        document = json.loads(answer.data)
    except (urllib3.exceptions.HTTPError, ValueError) as error:
        raise PaymentUnknown(f"{method} {path}: {error!r}") from error
    if answer.status == 200:
        return document
    code = _refusal(document)
    if answer.status in DEFINITE and code:
        raise PaymentDeclined(code)
    raise PaymentUnknown(f"{method} {path}: {answer.status} {code}")


def _headers(key: str = "") -> dict[str, str]:
    headers = {"Authorization": f"Bearer {settings.PSP_KEY}", "Content-Type": "application/json"}
    return {**headers, "Idempotency-Key": key} if key else headers


def _refusal(document: Any) -> str:
    """The code of the provider's refusal; empty if it is somebody else's, such as a proxy's."""
    error = document.get("error") if isinstance(document, dict) else None
    code = error.get("code") if isinstance(error, dict) else None
    return code if isinstance(code, str) else ""


def _read(reader: Callable[[Any], T], document: Any) -> T:
    # It was done, but what was done cannot be read: unknown.
    try:
        return _checked(reader, document)
    except ValueError as error:
        raise PaymentUnknown(str(error)) from error


def _checked(reader: Callable[[Any], T], document: Any) -> T:
    try:
        return reader(document)
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"not what a provider answers: {document!r}") from error


def _intent(document: Any) -> Intent:
    if document["status"] not in get_args(IntentStatus):
        raise ValueError(document["status"])
    return Intent(
        id=str(document["id"]),
        order=int(document["order"]),
        amount=Decimal(document["amount"]) / MINOR,
        status=document["status"],
        refunded=Decimal(document["refunded"]) / MINOR,
    )


def _refund(document: Any) -> ProviderRefund:
    if document["status"] not in get_args(RefundStatus):
        raise ValueError(document["status"])
    return ProviderRefund(
        id=str(document["id"]),
        intent=str(document["intent"]),
        amount=Decimal(document["amount"]) / MINOR,
        status=document["status"],
    )


_pool: list[urllib3.PoolManager] = []


def _client() -> urllib3.PoolManager:
    """This process's connections."""
    if not _pool:
        _pool.append(urllib3.PoolManager(num_pools=2, maxsize=CONNECTIONS, block=True))
    return _pool[0]


# Two processes that share a socket would read each other's answers.
os.register_at_fork(after_in_child=_pool.clear)
