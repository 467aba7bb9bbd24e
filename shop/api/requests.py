"""Reading requests: who asks, with which key, for what. Bad input ends here."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Generic, TypeVar
from uuid import UUID

import msgspec
from django.http import HttpRequest

from shop.accounts import tokens
from shop.api.schemas import Request
from shop.refusals import Refusal

LARGEST_BODY = 16 * 1024
"""Bytes. The largest real request has a few hundred."""

B = TypeVar("B")

# msgspec names the member in its message: "… missing required field `quantity`" or
# "Expected `int`, got `str` - at `$.lines[0].quantity`".
MEMBER = re.compile(r"required field `(\w+)`|\.(\w+)(?:\[\d+\])*`$")


def buyer(request: HttpRequest) -> int:
    """Return the buyer who asks, from the bearer token.

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


def idempotency_key(request: HttpRequest) -> UUID | None:
    """Return the request's key; None if it has none.

    Raises:
        Refusal: 400 if it is no UUID in the usual form.
    """
    text = request.META.get("HTTP_IDEMPOTENCY_KEY")
    if text is None:
        return None
    # msgspec reads the form without hyphens too.
    if len(text) != len("00000000-0000-0000-0000-000000000000"):
        raise Refusal("idempotency_key_missing")
    try:
        key: UUID = msgspec.convert(text, UUID)
    except msgspec.ValidationError:
        raise Refusal("idempotency_key_missing") from None
    return key


def raw_body(request: HttpRequest) -> bytes:
    """Return the request's body as it came.

    Raises:
        Refusal: 413 if it is too large, 400 if it comes without its length.
    """
    length = request.META.get("CONTENT_LENGTH") or "0"
    if not length.isdecimal() or int(length) > LARGEST_BODY:
        raise Refusal("too_large")
    if "HTTP_TRANSFER_ENCODING" in request.META:
        # Django would read nothing of it, and nothing may mean "the whole order".
        raise Refusal("malformed")
    return request.body


class BodyReader(Generic[B]):
    """Reads the JSON bodies of one operation.

    Args:
        kind: what they contain.
    """

    def __init__(self, kind: type[B]) -> None:
        self.kind = kind
        self._decode: Callable[[bytes], B] = msgspec.json.Decoder(kind).decode
        self._codes = kind.codes if issubclass(kind, Request) else {}

    def read(self, request: HttpRequest) -> B:
        """Decode a request's body.

        Raises:
            Refusal: 413 if it is too large, 400 if it is no JSON, 422 if it is not what the
                schema says.
        """
        raw = raw_body(request) or b"{}"
        try:
            return self._decode(raw)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return self._read_slowly(raw)

    def _read_slowly(self, raw: bytes) -> B:
        """Decode as JSON Schema does, to which 1.0 is an integer, or say what is wrong."""
        try:
            document = ANY_JSON.decode(raw)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            raise Refusal("malformed") from None
        try:
            return msgspec.convert(document, self.kind)
        except msgspec.ValidationError as error:
            found = MEMBER.search(str(error))
            member = (found[1] or found[2]) if found else ""
            code = self._codes.get(member, "invalid_request")
            raise Refusal(code, detail=str(error)) from None


class QueryReader(Generic[B]):
    """Reads the query strings of one operation; each parameter is a list, separated by commas."""

    def __init__(self, kind: type[B]) -> None:
        self.kind = kind

    def read(self, request: HttpRequest) -> B:
        """Decode a request's query string.

        Raises:
            Refusal: 422 if it is not what the schema says.
        """
        texts = request.GET.dict()
        lists = {name: text.split(",") if text else [] for name, text in texts.items()}
        try:
            return msgspec.convert(lists, self.kind, strict=False)
        except msgspec.ValidationError as error:
            raise Refusal("invalid_request", detail=str(error)) from None


def _number(text: str) -> Any:
    value = float(text)
    return int(value) if value.is_integer() else value


ANY_JSON = msgspec.json.Decoder(float_hook=_number)
