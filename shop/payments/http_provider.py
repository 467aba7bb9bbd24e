"""The payment provider over HTTP, as a pattern for others.

It never retries: the caller knows the idempotency key and how long the buyer should wait.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import re
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from functools import cache
from typing import Annotated, Any, TypeVar
from urllib.parse import quote, urlencode

import msgspec
import urllib3
from django.conf import settings
from msgspec import Meta, Struct, convert

from shop.catalogue.sales import database_time
from shop.payments.provider import (
    Dispute,
    Event,
    Intent,
    LedgerLine,
    NotFromProvider,
    PaymentDeclined,
    PaymentUnknown,
    Provider,
    ProviderRefund,
    measured,
)

T = TypeVar("T")

TIMEOUT = urllib3.Timeout(connect=1.0, read=5.0)
"""Seconds. A buyer waits for the answer; later, a webhook or a sweep gets it."""

MAX_SECONDS = 6.0
"""Seconds for a whole answer; the `read` timeout only bounds each part of it."""

CONNECTIONS = 64
"""Connections per process. Further requests wait for one, at most as long as for an answer."""

PIECE = 65536
"""Bytes per read."""

DEFINITE = {402, 409}
"""Status codes after which no money was or will be moved. 400, 401, 403 and 404 are not among them:
a mistake of ours, such as a wrong key, says nothing about the buyer's money. Nor is 422: the first
request under that key may have moved money."""


TOLERANCE = 5 * 60
"""Maximum age of a signature in seconds. Bounds how long a recorded webhook could be replayed;
within that time, the event's id identifies a replay."""

SIGNATURE = re.compile(r"t=(\d{1,12}),v1=([0-9a-f]{64})")

SUBJECTS: Mapping[str, type[Intent | ProviderRefund | Dispute]] = {
    "payment_intent.requires_capture": Intent,
    "payment_intent.processing": Intent,
    "payment_intent.captured": Intent,
    "payment_intent.failed": Intent,
    "payment_intent.cancelled": Intent,
    "refund.succeeded": ProviderRefund,
    "refund.failed": ProviderRefund,
    "dispute.created": Dispute,
    "dispute.updated": Dispute,
    "dispute.closed": Dispute,
}
"""What an event is about, by its type. The shop has no use for others: providers add new ones."""


class Envelope(Struct, frozen=True):
    """An event of the payment provider. Types and members unknown to the shop are ignored."""

    # The lengths are those of the columns, which refuse more.
    id: Annotated[
        str,
        Meta(
            description="The provider's own; an event of the same id takes effect once.",
            extra_json_schema={"maxLength": 100},
        ),
    ]
    type: Annotated[str, Meta(examples=[*SUBJECTS], extra_json_schema={"maxLength": 60})]
    data: Annotated[dict[str, Any], Meta(description="The payment, refund or dispute after it.")]
    created: Annotated[float | None, Meta(description="Seconds since 1970.")] = None


class HttpProvider(Provider):
    """A client of the provider's JSON API: bearer key, idempotency keys, minor units."""

    def create_intent(
        self,
        *,
        order: int,
        amount: int,
        currency: str,
        key: str,
        return_url: str = "",
        expires: datetime | None = None,
    ) -> Intent:
        """Create a payment."""
        body = {
            "order": order,
            "amount": amount,
            "currency": currency,
        }
        # Not in the body, which a repeat under the key must not change: the first request decides.
        more = {"return_url": return_url, "expires": expires.timestamp() if expires else ""}
        return _call(Intent, "POST", f"payment_intents?{urlencode(more)}", key=key, body=body)

    def capture(self, intent: str, *, key: str) -> Intent:
        """Capture the money."""
        path = f"payment_intents/{quote(intent, safe='')}/capture"
        return _call(Intent, "POST", path, key=key, body={})

    def cancel(self, intent: str, *, key: str) -> Intent:
        """Cancel a payment. The provider declines this while it is processing."""
        path = f"payment_intents/{quote(intent, safe='')}/cancel"
        return _call(Intent, "POST", path, key=key, body={})

    def refund(self, intent: str, *, amount: int, key: str) -> ProviderRefund:
        """Refund money."""
        body = {"intent": intent, "amount": amount}
        return _call(ProviderRefund, "POST", "refunds", key=key, body=body)

    def get(self, intent: str) -> Intent:
        """Return the present state of a payment."""
        return _call(Intent, "GET", f"payment_intents/{quote(intent, safe='')}")

    def find_refund(self, intent: str, *, key: str) -> ProviderRefund | None:
        """Return the refund that was asked for under a key."""
        query = urlencode({"intent": intent, "reference": key})
        found = _call(_Refunds, "GET", f"refunds?{query}").data
        return found[0] if found else None

    def verify(self, body: bytes, headers: Mapping[str, str]) -> list[Event]:
        """Check a webhook's `PSP-Signature` and its age, and return its event."""
        _verify_signature(body, headers.get("PSP-Signature", ""))
        try:
            envelope = msgspec.json.decode(body, type=Envelope)
        except RecursionError as error:
            raise ValueError("no event") from error
        subject = SUBJECTS.get(envelope.type)
        about = convert(envelope.data, subject) if subject else None
        return [Event(envelope.id, envelope.type, about, envelope.created)]

    def ledger(self) -> Iterator[LedgerLine]:
        """Return every movement in the provider's ledger, oldest first.

        Raises:
            PaymentUnknown: the provider does not answer, or not completely.
        """
        try:
            with _request("GET", "ledger") as response:
                yield from _complete(response)
        except (urllib3.exceptions.HTTPError, ValueError) as error:
            raise PaymentUnknown(f"no ledger: {error}") from error


class _Refunds(Struct):
    data: list[ProviderRefund]


def _verify_signature(body: bytes, signature: str) -> None:
    match = SIGNATURE.fullmatch(signature)
    if not match:
        raise NotFromProvider
    signed = match[1].encode() + b"." + body
    expected = hmac.new(settings.PSP_WEBHOOK_SECRET.encode(), signed, hashlib.sha256).hexdigest()
    if not hmac.compare_digest(expected, match[2]):
        raise NotFromProvider
    # Only after the signature, so that a forged call costs no query. By the database's clock, as
    # everywhere, because a process's clock may be wrong.
    if abs(database_time().timestamp() - int(match[1])) > TOLERANCE:
        raise NotFromProvider


def _complete(response: urllib3.BaseHTTPResponse) -> Iterator[LedgerLine]:
    """Yield the ledger's lines; the last one holds their number, so that none is missed."""
    if response.status != 200:
        raise ValueError(f"answered with {response.status}")
    count, end = 0, None
    for text in response:
        line = msgspec.json.decode(text, type=dict[str, Any])
        if "lines" in line:
            end = line["lines"]
        else:
            count += 1
            yield msgspec.convert(line, LedgerLine)
    if end != count:
        raise ValueError(f"broken off after {count} lines")


def _call(kind: type[T], method: str, path: str, *, key: str = "", body: Any = None) -> T:
    """Send a request; return the document of a definite success."""
    with measured():
        return _ask(kind, method, path, key=key, body=body)


def _ask(kind: type[T], method: str, path: str, *, key: str, body: Any) -> T:
    deadline = time.monotonic() + MAX_SECONDS
    try:
        with _request(method, path, key=key, body=body) as answer:
            document = _read(answer, deadline)
        if answer.status == 200:
            # If this cannot be parsed, the request succeeded with an unknown result.
            return msgspec.json.decode(document, type=kind)
    except (urllib3.exceptions.HTTPError, OSError, ValueError, RecursionError) as error:
        raise PaymentUnknown(f"{method} {path}: {error!r}") from error
    code = _refusal(document)
    if answer.status in DEFINITE and code:
        raise PaymentDeclined(code)
    raise PaymentUnknown(f"{method} {path}: {answer.status} {code}")


@contextmanager
def _request(
    method: str, path: str, *, key: str = "", body: Any = None
) -> Iterator[urllib3.BaseHTTPResponse]:
    headers = {"Authorization": f"Bearer {settings.PSP_KEY}", "Content-Type": "application/json"}
    answer = _client().request(
        method,
        f"{settings.PSP_URL}/v1/{path}",
        body=None if body is None else msgspec.json.encode(body),
        headers={**headers, "Idempotency-Key": key} if key else headers,
        timeout=TIMEOUT,
        pool_timeout=TIMEOUT.read_timeout,
        retries=False,
        preload_content=False,
    )
    try:
        yield answer
    finally:
        # One that was not read to its end would keep its place in the pool.
        answer.close()
        answer.release_conn()


def _read(answer: urllib3.BaseHTTPResponse, deadline: float) -> bytes:
    """Read an answer to its end.

    Raises:
        TimeoutError: its parts are too small or too slow.
    """
    pieces = []
    while piece := answer.read1(PIECE):
        if time.monotonic() > deadline:
            raise TimeoutError("the answer does not end")
        pieces.append(piece)
    return b"".join(pieces)


def _refusal(body: bytes) -> str:
    """Return the code of the provider's refusal; empty if a proxy answered, for example."""
    try:
        return str(msgspec.json.decode(body)["error"]["code"])
    except (ValueError, LookupError, TypeError, RecursionError):
        return ""


@cache
def _client() -> urllib3.PoolManager:
    """Return this process's connection pool."""
    return urllib3.PoolManager(num_pools=2, maxsize=CONNECTIONS, block=True)


# Two processes that share a socket would read each other's answers.
os.register_at_fork(after_in_child=_client.cache_clear)
