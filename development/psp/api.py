"""The provider's API and page, as a WSGI application."""

from __future__ import annotations

import hashlib
import hmac
import json
import re
import socket
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from http import HTTPStatus
from pathlib import Path
from typing import Annotated, Any, TypeVar
from urllib.parse import parse_qs, parse_qsl

import msgspec
from babel.numbers import format_currency
from django.template import Context, Engine
from msgspec import Meta, Struct
from msgspec.structs import asdict

from development.psp import checkout
from development.psp.books import Answer, Behaviour, Books, NoSuchIntent, intent_document, refusal
from shop.money import to_major

MAX_KEY = 255
PAY = "/pay/"
BODY = "psp.body"

DATABASE = re.compile("^order-[0-9a-f]{16}-([0-9]+)-[0-9a-f]+")
"""What a key says of the shop's database. Left out of draws, so that a seed repeats its faults."""

Positive = Annotated[int, Meta(ge=1, le=2**63 - 1)]
T = TypeVar("T")
Environ = dict[str, Any]
Body = Iterable[bytes]


class NewIntent(Struct):
    """A payment to create."""

    order: Positive
    amount: Positive
    currency: Annotated[str, Meta(pattern="^[A-Z]{3}$", max_length=3)]


class NewRefund(Struct):
    """A refund to make."""

    intent: str
    amount: Positive


class Bad(Exception):
    """An invalid request; `answer` says why."""

    def __init__(self, status: int, code: str) -> None:
        super().__init__(code)
        self.answer = refusal(status, code)


class Api:
    """The application.

    Args:
        books: of the provider.
        key: with which the shop authenticates.
        demo: whether there is a page of the books, and whether the behaviour may change.
        public_url: address of the provider for browsers; empty: the one that the shop calls.
        back: address to which the page of the books leads back; empty: it leads nowhere.
    """

    def __init__(
        self, books: Books, key: str, *, demo: bool, public_url: str = "", back: str = ""
    ) -> None:
        self._books, self._key, self._demo, self._public_url = books, key, demo, public_url
        self._back = back
        self._calls: list[tuple[str, dict[str, Callable[..., Answer | Body]]]] = [
            ("payment_intents", {"POST": self._create}),
            ("payment_intents/([^/]+)", {"GET": self._get}),
            ("payment_intents/([^/]+)/capture", {"POST": self._capture}),
            ("payment_intents/([^/]+)/cancel", {"POST": self._cancel}),
            ("refunds", {"GET": self._refunds, "POST": self._refund}),
            ("ledger", {"GET": self._ledger}),
        ]
        if demo:
            self._calls.append(("behaviour", {"GET": self._behaviour, "POST": self._behave}))

    def __call__(self, environ: Environ, start_response: Callable[..., object]) -> Body:
        """Answer a request."""
        path = environ["PATH_INFO"]
        kind, status, body = "application/json", 200, b""
        if path == "/healthz":
            kind, body = "text/plain", b"ok\n"
        elif path == "/" and self._demo:
            kind, body = "text/html; charset=utf-8", page(self._books, self._back).encode()
        elif path.startswith(PAY):
            return self._checkout(environ, start_response)
        else:
            answer = self._answer(environ, path.removeprefix("/v1/"))
            if not isinstance(answer, tuple):
                start_response("200 OK", [("Content-Type", "application/jsonl")])
                return answer
            status, document = answer
            body = json.dumps(document).encode()
        headers = [("Content-Type", kind), ("Content-Length", str(len(body)))]
        start_response(f"{status} {HTTPStatus(status).phrase}", headers)
        return [body]

    def _answer(self, environ: Environ, path: str) -> Answer | Body:
        try:
            found = ((re.fullmatch(pattern, path), calls) for pattern, calls in self._calls)
            match, calls = next(((match, calls) for match, calls in found if match), (None, {}))
            if match is None:
                raise Bad(404, "not_found")
            if (call := calls.get(environ["REQUEST_METHOD"])) is None:
                raise Bad(405, "method_not_allowed")
            sent = environ.get("HTTP_AUTHORIZATION", "")
            if not hmac.compare_digest(sent.encode(), f"Bearer {self._key}".encode()):
                raise Bad(401, "unauthorized")
            environ[BODY] = environ["wsgi.input"].read()
            if delay := self._books.behaviour.delay:
                time.sleep(delay / 1000)
            return call(environ, *match.groups())
        except NoSuchIntent:
            return refusal(404, "no_such_intent")
        except Bad as bad:
            return bad.answer

    def _checkout(self, environ: Environ, start_response: Callable[..., object]) -> Body:
        """Show a payment's page to its buyer, or take the buyer's answer."""
        try:
            shown = checkout.respond(self._books, environ, environ["PATH_INFO"].removeprefix(PAY))
        except NoSuchIntent:
            shown = checkout.Shown(404, body=b"There is no such payment.\n", kind="text/plain")
        headers = [("Content-Type", shown.kind), ("Content-Length", str(len(shown.body)))]
        if shown.location:
            headers.append(("Location", shown.location))
        start_response(f"{shown.status} {HTTPStatus(shown.status).phrase}", headers)
        return [shown.body]

    def _get(self, environ: Environ, intent: str) -> Answer:
        return 200, self._with_action(environ, intent_document(self._books.intent(intent)))

    def _create(self, environ: Environ) -> Answer:
        new = decoded(environ, NewIntent)
        key = environ.get("HTTP_IDEMPOTENCY_KEY", "")
        query = dict(parse_qsl(environ["QUERY_STRING"]))
        return_url = query.get("return_url", "")
        if return_url and not return_url.startswith(("http://", "https://")):
            raise Bad(400, "invalid_return_url")
        try:
            expires = float(query["expires"]) if "expires" in query else None
        except ValueError:
            raise Bad(400, "invalid_expires") from None
        status, document = self._once(
            environ,
            lambda: self._books.create(
                new.order, new.amount, new.currency, key, return_url, expires
            ),
        )
        return status, self._with_action(environ, document)

    def _with_action(self, environ: Environ, document: dict[str, Any]) -> dict[str, Any]:
        """Add the page that a payment sends its buyer to: at the address that the shop calls,
        unless browsers know the provider by another one.
        """
        if document.get("status") != "requires_action":
            return document
        address = self._public_url or f"http://{environ['HTTP_HOST']}"
        action = {"kind": "redirect", "url": f"{address}{PAY}{document['id']}"}
        return {**document, "action": action}

    def _refunds(self, environ: Environ) -> Answer:
        match parse_qs(environ["QUERY_STRING"]):
            case {"intent": [intent], "reference": [reference]}:
                return 200, {"data": self._books.refunds(intent, reference)}
        raise Bad(400, "invalid_query")

    def _capture(self, environ: Environ, intent: str) -> Answer:
        return self._once(environ, lambda: self._books.capture(intent))

    def _cancel(self, environ: Environ, intent: str) -> Answer:
        return self._once(environ, lambda: self._books.cancel(intent))

    def _refund(self, environ: Environ) -> Answer:
        new = decoded(environ, NewRefund)
        key = environ.get("HTTP_IDEMPOTENCY_KEY", "")
        return self._once(environ, lambda: self._books.refund(new.intent, new.amount, key))

    def _ledger(self, environ: Environ) -> Iterator[bytes]:
        """Stream all movements, one JSON object per line, and their number on the last line."""
        lines = self._books.ledger()
        for line in lines:
            yield json.dumps(dict(line)).encode() + b"\n"
        yield json.dumps({"lines": len(lines)}).encode() + b"\n"

    def _behaviour(self, environ: Environ) -> Answer:
        return 200, asdict(self._books.behaviour)

    def _behave(self, environ: Environ) -> Answer:
        try:
            fields = decoded(environ, dict[str, Any])
            return 200, asdict(self._books.behave(fields))
        except ValueError as error:
            raise Bad(400, str(error)) from None

    def _once(self, environ: Environ, effect: Callable[[], Answer]) -> Answer:
        """Execute a request once per idempotency key; repeats get the first answer forever."""
        key = environ.get("HTTP_IDEMPOTENCY_KEY", "")
        if not 0 < len(key) <= MAX_KEY:
            raise Bad(400, "idempotency_key_missing")
        asked = hashlib.sha256(f"{environ['PATH_INFO']}\n".encode() + environ[BODY]).hexdigest()
        answer, first = self._books.once(key, asked, effect)
        now = self._books.behaviour
        if first and now.strikes(now.lost, "lost", DATABASE.sub(r"order-\1", key)):
            with suppress(OSError):  # cut the connection, so that the answer is lost
                environ["psp.socket"].shutdown(socket.SHUT_RDWR)
        return answer


def decoded(environ: Environ, kind: type[T]) -> T:
    """Parse a request's JSON body.

    Raises:
        Bad: it does not match `kind`.
    """
    try:
        return msgspec.json.decode(environ[BODY] or b"{}", type=kind)
    except (ValueError, RecursionError) as error:
        raise Bad(400, f"malformed: {error}") from None


LATEST = 50
"""Payments shown."""

TEMPLATE = Engine().from_string(Path(__file__).with_name("page.html").read_text(encoding="utf-8"))


def page(books: Books, back: str) -> str:
    """Return the page: the totals and the latest payments, with a link to `back` unless empty."""
    sums, states = books.totals()
    payments = {row["status"]: row["payments"] for row in states}
    shown: dict[str, Any] = {"Payments": sum(payments.values())}
    for row in sums:
        currency = row["currency"]
        shown[f"Captured, {currency}"] = _money(row["captured"], currency)
        shown[f"Refunded, {currency}"] = _money(row["refunded"], currency)
    shown["Waiting for the buyer"] = payments.get("requires_action", 0)
    shown["Being decided"] = payments.get("requires_capture", 0) + payments.get("processing", 0)
    shown["Declined"] = payments.get("failed", 0)
    now = books.behaviour
    ordinary = asdict(Behaviour(webhook_url=now.webhook_url, seed=now.seed))
    context = {
        "back": back,
        "totals": shown,
        "faults": [
            f"{name} {json.dumps(each)}"
            for name, each in asdict(now).items()
            if each != ordinary[name]
        ],
        "latest": [
            {
                "created": time.strftime("%H:%M:%S", time.gmtime(row["created"])),
                "order": row["order"],
                "status": row["status"].replace("_", " ").capitalize(),
                "amount": _money(row["amount"], row["currency"]),
                "refunded": _money(row["refunded"], row["currency"]) if row["refunded"] else "",
            }
            for row in books.latest(LATEST)
        ],
    }
    return TEMPLATE.render(Context(context, use_l10n=False))


def _money(amount: int, currency: str) -> str:
    return format_currency(
        to_major(amount, currency), currency, locale="en", decimal_quantization=False
    )
