"""Reading requests: who asks, with which key, for what. Bad input ends here."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable
from functools import wraps
from typing import Any
from uuid import UUID

from django.db import InterfaceError, OperationalError
from django.http import HttpRequest, HttpResponseBase
from django.views.decorators.csrf import csrf_exempt

from shop.accounts import tokens
from shop.api.problems import problem
from shop.checkout.cart import Wanted
from shop.messages import Refusal

log = logging.getLogger(__name__)

LARGEST_BODY = 16 * 1024
"""Bytes. The largest real request has a few hundred."""

LARGEST_ID = 2**63 - 1

# What JSON can write and a database cannot: the NUL, and halves of characters.
NO_TEXT = re.compile("[\0\ud800-\udfff]")

View = Callable[..., HttpResponseBase]


def api(method: str) -> Callable[[View], View]:
    """Make a view of the API: one method, refusals as problems, no cookies and so no CSRF."""

    def decorate(view: View) -> View:
        @csrf_exempt
        @wraps(view)
        def wrapped(request: HttpRequest, **arguments: Any) -> HttpResponseBase:
            if request.method != method:
                response = problem(request, "method_not_allowed")
                response.headers["Allow"] = method
                return response
            try:
                if any(isinstance(a, int) and a > LARGEST_ID for a in arguments.values()):
                    raise Refusal("not_found")
                return view(request, **arguments)
            except Refusal as refusal:
                return problem(request, refusal.code, **refusal.more)
            except (OperationalError, InterfaceError):
                # A read did not happen. A write may have: its caller must look.
                log.exception("the database failed in %s", request.path)
                return problem(request, "busy" if method == "GET" else "outcome_unknown")
            except Exception:
                log.exception("failed: %s %s", method, request.path)
                return problem(request, "internal_error")

        return wrapped

    return decorate


def buyer(request: HttpRequest) -> int:
    """The buyer who asks, from the bearer token.

    Raises:
        Refusal: 401 without a valid one.
    """
    scheme, _, token = request.META.get("HTTP_AUTHORIZATION", "").partition(" ")
    if scheme.lower() != "bearer":
        raise Refusal("unauthorized")
    try:
        return tokens.verify(token.strip())
    except tokens.BadToken:
        raise Refusal("unauthorized") from None


def idempotency_key(request: HttpRequest) -> UUID:
    """The request's key.

    Raises:
        Refusal: 400 if there is none, or it is no UUID in the usual form.
    """
    text = request.META.get("HTTP_IDEMPOTENCY_KEY", "")
    if len(text) != len("00000000-0000-0000-0000-000000000000"):
        raise Refusal("idempotency_key_missing")
    try:
        return UUID(text)
    except ValueError:
        raise Refusal("idempotency_key_missing") from None


def body(request: HttpRequest) -> dict[str, Any]:
    """The request's JSON object.

    Raises:
        Refusal: 413 if it is too large, 400 if it is no JSON, 422 if it is no object.
    """
    try:
        document = json.loads(raw_body(request) or b"{}")
    except (ValueError, RecursionError):
        raise Refusal("malformed") from None
    if not isinstance(document, dict):
        raise Refusal("invalid_request")
    return document


def raw_body(request: HttpRequest) -> bytes:
    """The request's body as it came.

    Raises:
        Refusal: 413 if it is too large.
    """
    length = request.META.get("CONTENT_LENGTH") or "0"
    if not length.isdecimal() or int(length) > LARGEST_BODY:
        raise Refusal("too_large")
    return request.body


def whole_number(document: dict[str, Any], name: str, code: str) -> int:
    """A member that is a whole number; neither true nor 1.0 is one.

    Raises:
        Refusal: with the code given.
    """
    value = document.get(name)
    if type(value) is not int:
        raise Refusal(code)
    return value


def cart(document: dict[str, Any]) -> list[Wanted]:
    """The lines of a cart: ``{"lines": [{"sale": 1, "quantity": 2}]}``.

    Raises:
        Refusal: 422.
    """
    lines = document.get("lines")
    if not isinstance(lines, list) or not all(isinstance(line, dict) for line in lines):
        raise Refusal("invalid_cart")
    wanted = []
    for line in lines:
        sale = whole_number(line, "sale", "invalid_cart")
        if not 0 < sale <= LARGEST_ID:
            raise Refusal("invalid_cart")
        wanted.append(Wanted(sale, whole_number(line, "quantity", "invalid_quantity")))
    return wanted


def text(document: dict[str, Any], name: str, *, longest: int = 1000) -> str:
    """A member that is a text.

    Raises:
        Refusal: 422.
    """
    value = document.get(name)
    if not isinstance(value, str) or not 0 < len(value) <= longest or NO_TEXT.search(value):
        raise Refusal("invalid_request")
    return value
