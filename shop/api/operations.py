"""Operations of the API: what each takes and answers.

An operation is described once, above its view. The description reads the view's arguments, and the
OpenAPI document is generated from it (`shop/api/openapi.py`), so the two cannot disagree.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import wraps
from typing import Any, Literal, TypeVar, cast
from uuid import UUID

import msgspec
from django.db import InterfaceError, OperationalError
from django.http import HttpRequest, HttpResponse, HttpResponseBase

from inventory.postgresql.base import Share, may_have_effects
from shop.accounts import tokens
from shop.api.problems import Reply, problem
from shop.api.schemas import Request
from shop.operating import outage
from shop.refusals import Refusal
from shop.shares import READERS

log = logging.getLogger(__name__)

MAX_ID = 2**63 - 1
JSON_LINES = "application/x-ndjson"

MAX_BODY = 16 * 1024
"""Bytes. The largest real request has a few hundred; an operation may allow more."""

Q = TypeVar("Q")

# msgspec names the member in its message: "… missing required field `quantity`" or
# "Expected `int`, got `str` - at `$.lines[0].quantity`".
MEMBER = re.compile(r"required field `(\w+)`|\.(\w+)(?:\[\d+\])*`$")

Result = HttpResponseBase | tuple[int, Any]
"""What an operation's function returns: a status and a document, or a whole response."""

encode = msgspec.json.Encoder().encode


@dataclass(frozen=True, slots=True)
class Answer:
    """A good answer.

    Attributes:
        content: type of the document; `str` for JSON lines, None for no content.
        meaning: what the status says here.
        links: operations that may follow, each with its path parameter and the member of this
            answer that the parameter is taken from.
    """

    content: type | None
    meaning: str
    links: Mapping[str, tuple[str, str]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """Decorator that makes a view of a function, and describes what the call takes and answers::

        @Operation(method="POST", tag="Orders", buyer=True, key="required", body=Purchase,
                   answers={201: Answer(Order, "The order.")}, problems=("sold_out",))
        def place_order(request, sale, *, buyer, key, body):
            return 201, ...

    The function is called with the request, the ids of the path, and the arguments that the
    attributes ask for. It returns a status and a document, and refuses by raising `Refusal`.

    Attributes:
        method: the HTTP method.
        tag: heading of the operation in the documentation.
        answers: good answers by status.
        problems: codes of its refusals, beyond those that follow from the other attributes.
        buyer: whether it needs a buyer token; passed on as `buyer`, the user's id.
        key: whether it needs an idempotency key; passed on as `key`.
        body: type of the JSON body; passed on decoded as `body`.
        signed_body: type of a body that is passed on as it came, since it is signed.
        query: type of the query string; passed on decoded as `query`.
        headers: further request headers, with what they mean.
        share: the share of connections that it uses, so that it delays no other kind of request.
        max_body: maximum length of the body in bytes.
        max_age: seconds for which any cache may repeat a good answer, which is the same for all
            callers; 0: no cache may.
    """

    method: Literal["GET", "POST", "DELETE"]
    tag: str
    answers: Mapping[int, Answer]
    problems: tuple[str, ...] = ()
    buyer: bool = False
    key: Literal["required", "optional"] | None = None
    body: type[Request] | None = None
    signed_body: type | None = None
    query: type | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    share: Share = READERS
    max_body: int = MAX_BODY
    max_age: int = 0

    def __call__(self, function: Callable[..., Result]) -> Callable[..., HttpResponseBase]:
        """Make the view. Our own handler (`shop/api/handler.py`) calls its attribute `call`."""
        decode = msgspec.json.Decoder(self.body).decode if self.body else None

        def call(request: HttpRequest, **ids: int) -> Reply | HttpResponseBase:
            if request.method != self.method:
                return _not_allowed(request, self.method)
            try:
                if ids and max(ids.values()) > MAX_ID:
                    raise Refusal("not_found")
                may_have_effects.set(False)
                result = function(request, **ids, **self._arguments(request, decode))
                if isinstance(result, HttpResponseBase):
                    return result
                status, document = result
                reply = Reply(status, encode(document), "application/json")
                if self.max_age:
                    reply.headers.append(("Cache-Control", f"public, max-age={self.max_age}"))
                    reply.cached = True
                return reply
            except Refusal as refusal:
                return problem(request, refusal.code, detail=refusal.detail, **refusal.more)
            except (OperationalError, InterfaceError) as error:
                return problem(request, outage.refusal(error, reads=self.only_reads).code)
            except Exception:
                log.exception("failed: %s %s", self.method, request.path)
                return problem(request, "internal_error")

        return _view(wraps(function), call, self, {})

    @property
    def only_reads(self) -> bool:
        """Whether the operation changes nothing."""
        return self.method == "GET" or self.share is READERS

    def _arguments(
        self, request: HttpRequest, decode: Callable[[bytes], Any] | None
    ) -> dict[str, Any]:
        """Read a request's arguments; `decode` reads its body."""
        arguments: dict[str, Any] = {}
        if self.buyer:
            arguments["buyer"] = buyer_of(request)
        if self.key:
            arguments["key"] = idempotency_key(request)
            if self.key == "required" and arguments["key"] is None:
                raise Refusal("idempotency_key_missing")
        if self.method == "POST":
            # Read also where no body is used: an incomplete request must not be executed.
            body = raw_body(request, self.max_body)
            if self.signed_body:
                arguments["body"] = body
            elif decode and self.body:
                body = body or b"{}"
                try:
                    arguments["body"] = decode(body)
                except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                    arguments["body"] = _read_slowly(body, self.body)
        if self.query:
            arguments["query"] = _query_of(request, self.query)
        return arguments


def _view(
    named: Callable[[Any], Any],
    call: Callable[..., Reply | HttpResponseBase],
    operation: Operation,
    methods: Mapping[str, Callable[..., HttpResponseBase]],
) -> Callable[..., HttpResponseBase]:
    @named
    def view(request: HttpRequest, **ids: int) -> HttpResponseBase:
        reply = call(request, **ids)
        return reply.response() if isinstance(reply, Reply) else reply

    view.call = call
    view.operation = operation
    view.methods = methods or {operation.method: view}
    view.csrf_exempt = True  # set here, because Django's decorator would add a call
    return cast(Callable[..., HttpResponseBase], view)


def by_method(*views: Callable[..., HttpResponseBase]) -> Callable[..., HttpResponseBase]:
    """Make one view of operations that have the same path and different methods.

    They use the share of the first one.
    """
    methods = {view.operation.method: view for view in views}  # type: ignore[attr-defined]

    def call(request: HttpRequest, **ids: int) -> Reply | HttpResponseBase:
        view = methods.get(request.method or "")
        if view is None:
            return _not_allowed(request, ", ".join(methods))
        reply: Reply | HttpResponseBase = view.call(request, **ids)  # type: ignore[attr-defined]
        return reply

    return _view(wraps(views[0]), call, views[0].operation, methods)  # type: ignore[attr-defined]


def _not_allowed(request: HttpRequest, allowed: str) -> Reply:
    reply = problem(request, "method_not_allowed")
    reply.headers.append(("Allow", allowed))
    return reply


def no_content() -> HttpResponse:
    """Return an answer of 204, which has neither a body nor a type."""
    response = HttpResponse(status=204)
    del response.headers["Content-Type"]
    return response


def buyer_of(request: HttpRequest) -> int:
    """Return the id of the buyer who sent the request, from the bearer token.

    Raises:
        Refusal: 401 without a valid token; 503 while it is unknown whether it was revoked.
    """
    scheme, _, token = request.META.get("HTTP_AUTHORIZATION", "").partition(" ")
    if scheme.lower() != "bearer":
        raise Refusal("unauthorized")
    try:
        return tokens.verify(token.strip())
    except tokens.BadToken:
        raise Refusal("unauthorized") from None
    except tokens.Unreadable:
        raise Refusal("busy") from None


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


def raw_body(request: HttpRequest, longest: int = MAX_BODY) -> bytes:
    """Return the request's body as it came.

    Args:
        request: the request.
        longest: maximum length in bytes.

    Raises:
        Refusal: 413 if it is too large, 400 if it ends early or comes without its length.
    """
    length = request.META.get("CONTENT_LENGTH") or "0"
    if not length.isdecimal() or int(length) > longest:
        raise Refusal("too_large")
    if "HTTP_TRANSFER_ENCODING" in request.META:
        raise Refusal("malformed", detail="Send the body with its Content-Length.")
    try:
        body = request.body
    except OSError:
        body = b""
    if len(body) != int(length):
        raise Refusal("malformed", detail="The body is shorter than its Content-Length.")
    return body


def _read_slowly(body: bytes, kind: type[Request]) -> Request:
    """Decode a body that the fast decoder has refused: by JSON Schema, 1.0 is an integer as well.

    Raises:
        Refusal: 400 if it is no JSON, 422 if it is not what the schema says.
    """
    try:
        document = ANY_JSON.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise Refusal("malformed") from None
    try:
        return msgspec.convert(document, kind)
    except msgspec.ValidationError as error:
        match = MEMBER.search(str(error))
        member = (match[1] or match[2]) if match else ""
        code = kind.codes.get(member, "invalid_request")
        raise Refusal(code, detail=str(error)) from None


def _query_of(request: HttpRequest, kind: type[Q]) -> Q:
    """Decode a query string; each parameter is a list, separated by commas.

    Raises:
        Refusal: 422 if it is not what the schema says.
    """
    texts = request.GET.dict()
    lists = {name: text.split(",") if text else [] for name, text in texts.items()}
    try:
        return msgspec.convert(lists, kind, strict=False)
    except msgspec.ValidationError as error:
        raise Refusal("invalid_request", detail=str(error)) from None


def _number(text: str) -> Any:
    value = float(text)
    return int(value) if value.is_integer() else value


ANY_JSON = msgspec.json.Decoder(float_hook=_number)
