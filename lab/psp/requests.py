"""Parse requests: authentication, body and idempotency key."""

from __future__ import annotations

import hashlib
import logging
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from functools import wraps
from typing import Any, TypeVar

import msgspec
from django.conf import settings
from django.db import connection, transaction
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.http.response import HttpResponseBase
from django.utils.crypto import constant_time_compare

from lab.psp import behaviour, money
from lab.psp.models import IdempotencyKey
from lab.psp.money import Answer

log = logging.getLogger(__name__)

MAX_KEY = 255

CLAIM = """
INSERT INTO psp_idempotencykey (key, request) VALUES (%s, %s) ON CONFLICT DO NOTHING
"""

T = TypeVar("T")
View = Callable[..., HttpResponseBase]


class Bad(Exception):
    """An invalid request.

    Attributes:
        status: HTTP status of the answer.
        code: the error.
    """

    def __init__(self, status: int, code: str) -> None:
        super().__init__(code)
        self.status = status
        self.code = code


def call(*methods: str) -> Callable[[View], View]:
    """Make a view of the API: methods, bearer key, configured delay and JSON errors."""

    def decorate(view: View) -> View:
        @wraps(view)
        def wrapped(request: HttpRequest, **arguments: Any) -> HttpResponseBase:
            if request.method not in methods:
                return rendered(money.refusal(405, "method_not_allowed"))
            sent = request.META.get("HTTP_AUTHORIZATION", "")
            if not constant_time_compare(sent, f"Bearer {settings.PSP_KEY}"):
                return rendered(money.refusal(401, "unauthorized"))
            try:
                if delay := behaviour.current().delay:
                    time.sleep(delay / 1000)
                return view(request, **arguments)
            except money.NoSuchIntent:
                return rendered(money.refusal(404, "no_such_intent"))
            except Bad as bad:
                return rendered(money.refusal(bad.status, bad.code))

        return wrapped

    return decorate


def once(request: HttpRequest, effect: Callable[[], Answer]) -> HttpResponse:
    """Execute a request once per idempotency key; repeats get the first answer forever.

    Key, effect and answer are one transaction. A concurrent repeat waits for it at the unique
    index.
    """
    key = request.META.get("HTTP_IDEMPOTENCY_KEY", "")
    if not 0 < len(key) <= MAX_KEY:
        raise Bad(400, "idempotency_key_missing")
    asked = f"{request.path}\n".encode() + request.body
    fingerprint = hashlib.sha256(asked).hexdigest()
    with transaction.atomic():
        if first := _claim(key, fingerprint):
            answer = effect()
            status, document = answer
            IdempotencyKey.objects.filter(pk=key).update(status=status, answer=document)
        else:
            answer = _answered(key, fingerprint)
    now = behaviour.current()
    if first and now.strikes(now.lost, "lost", key):
        _hang_up(request)
    return rendered(answer)


def decoded(request: HttpRequest, kind: type[T]) -> T:
    """Parse the request's JSON body.

    Raises:
        Bad: it does not match `kind`.
    """
    try:
        return msgspec.json.decode(request.body or b"{}", type=kind)
    except (ValueError, RecursionError) as error:
        raise Bad(400, f"malformed: {error}") from None


def rendered(answer: Answer) -> HttpResponse:
    """Render an answer as a response."""
    status, document = answer
    return JsonResponse(document, status=status)


def _claim(key: str, fingerprint: str) -> bool:
    with connection.cursor() as cursor:
        cursor.execute(CLAIM, [key, fingerprint])
        return cursor.rowcount == 1


def _answered(key: str, fingerprint: str) -> Answer:
    earlier = IdempotencyKey.objects.get(pk=key)
    if earlier.request != fingerprint:
        return money.refusal(422, "idempotency_key_reused")
    # Written in the transaction that wrote the key.
    assert earlier.status is not None
    assert earlier.answer is not None
    return earlier.status, earlier.answer


def _hang_up(request: HttpRequest) -> None:
    """Cut the connection, so that the answer is lost."""
    with suppress(OSError):
        request.META["gunicorn.socket"].shutdown(socket.SHUT_RDWR)
