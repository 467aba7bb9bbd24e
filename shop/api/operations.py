"""Operations of the API: what each takes and answers.

An operation is described once, above its view. The description reads the view's arguments, and the
OpenAPI document is generated from it (`shop/api/openapi.py`), so the two cannot disagree.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import wraps
from typing import Any, Literal

import msgspec
from django.db import InterfaceError, OperationalError
from django.http import HttpRequest, HttpResponse, HttpResponseBase

from shop.api import requests
from shop.api.problems import answer, problem
from shop.checkout.rate_limit import limiter
from shop.refusals import Refusal

log = logging.getLogger(__name__)

LARGEST_ID = 2**63 - 1
JSON_LINES = "application/x-ndjson"

Result = HttpResponseBase | tuple[int, Any]
"""What an operation's function returns: a status and a document, or a whole response."""

Arguments = Callable[[HttpRequest], dict[str, Any]]

encode = msgspec.json.Encoder().encode


@dataclass(frozen=True, slots=True)
class Answer:
    """A good answer.

    Attributes:
        content: type of the document; ``str`` for JSON lines.
        meaning: what the status says here.
        links: operations that may follow, each with its path parameter and the member of this
            answer that the parameter is taken from.
    """

    content: type
    meaning: str
    links: Mapping[str, tuple[str, str]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """Decorator that makes a view of a function, and says what the call takes and answers.

    The function is called with the request, the ids of the path, and what is asked for below. It
    returns a status and a document, and refuses by raising ``Refusal``.

    Attributes:
        method: of HTTP.
        tag: the heading that it stands under in the documentation.
        answers: by status.
        problems: codes of its refusals, beyond those that follow from the other attributes.
        buyer: it needs a buyer token; passed on as ``buyer``, the user's id.
        limited: it counts towards the buyer's rate limit.
        key: whether it needs an idempotency key; passed on as ``key``.
        body: type of the JSON body; passed on decoded as ``body``.
        signed_body: type of a body that is passed on as it came, since it is signed.
        query: type of the query string; passed on decoded as ``query``.
        headers: further request headers, with what they mean.
    """

    method: Literal["GET", "POST"]
    tag: str
    answers: Mapping[int, Answer]
    problems: tuple[str, ...] = ()
    buyer: bool = False
    limited: bool = False
    key: Literal["required", "optional"] | None = None
    body: type[requests.Request] | None = None
    signed_body: type | None = None
    query: type | None = None
    headers: Mapping[str, str] = field(default_factory=dict)

    def __call__(self, function: Callable[..., Result]) -> Callable[..., HttpResponseBase]:
        """Make the view."""
        read = self._reader()

        @wraps(function)
        def view(request: HttpRequest, **ids: int) -> HttpResponseBase:
            if request.method != self.method:
                response = problem(request, "method_not_allowed")
                response.headers["Allow"] = self.method
                return response
            try:
                if any(number > LARGEST_ID for number in ids.values()):
                    raise Refusal("not_found")
                return _response(function(request, **ids, **read(request)))
            except Refusal as refusal:
                return problem(request, refusal.code, detail=refusal.detail, **refusal.more)
            except (OperationalError, InterfaceError):
                # A read did not happen. A write may have: its caller must look.
                log.exception("the database failed in %s", request.path)
                return problem(request, "busy" if self.method == "GET" else "outcome_unknown")
            except Exception:
                log.exception("failed: %s %s", self.method, request.path)
                return problem(request, "internal_error")

        view.operation = self  # type: ignore[attr-defined]
        view.csrf_exempt = True  # type: ignore[attr-defined]  # Django's decorator adds a call
        return view

    def _reader(self) -> Arguments:
        """Make the function that reads a request's arguments."""
        body: Callable[[HttpRequest], Any] | None = None
        query: Callable[[HttpRequest], Any] | None = None
        if self.body:
            body = requests.BodyReader(self.body).read
        if self.query:
            query = requests.QueryReader(self.query).read

        def read(request: HttpRequest) -> dict[str, Any]:
            found: dict[str, Any] = {}
            if self.buyer:
                found["buyer"] = requests.buyer(request)
            if self.limited and not limiter().allows(found["buyer"]):
                raise Refusal("rate_limited")
            if self.key:
                found["key"] = requests.idempotency_key(request)
                if self.key == "required" and found["key"] is None:
                    raise Refusal("idempotency_key_missing")
            if body is not None:
                found["body"] = body(request)
            if self.signed_body:
                found["body"] = requests.raw_body(request)
            if query is not None:
                found["query"] = query(request)
            return found

        return read


def _response(result: Result) -> HttpResponseBase:
    if isinstance(result, HttpResponseBase):
        return result
    status, document = result
    response: HttpResponse = answer(encode(document), status, "application/json")
    return response
