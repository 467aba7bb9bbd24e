"""Refusals as `application/problem+json` (RFC 9457), with a stable `code`."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache

import msgspec
from django.http import HttpRequest, HttpResponse
from django.utils.translation import get_language_from_request, override
from msgspec import UNSET

from shop.api.schemas import Problem
from shop.refusals import MAY_COME_BACK, PROBLEMS


@dataclass(slots=True)
class Reply:
    """An answer of the API. Django's response, with its own types of everything, costs 10 µs more.

    Attributes:
        status: of HTTP.
        headers: further ones, in the order in which they are sent.
        cached: whether `headers` has a `Cache-Control` of its own.
    """

    status: int
    body: bytes
    content_type: str
    headers: list[tuple[str, str]] = field(default_factory=list)
    cached: bool = False

    def response(self) -> HttpResponse:
        """Return it as Django's response, for a call that went through Django's handler."""
        headers = {"Content-Length": str(len(self.body)), **dict(self.headers)}
        response = HttpResponse(self.body, self.content_type, self.status, headers=headers)
        # Django would log each of thousands of refusals, which are outcomes rather than errors.
        response._has_been_logged = True  # type: ignore[attr-defined]
        return response


def problem(request: HttpRequest, code: str, *, detail: str = "", **more: int) -> Reply:
    """Answer with a code, in the client's language.

    Args:
        request: for its Accept-Language header.
        code: one of `PROBLEMS`.
        detail: what exactly is wrong, in English.
        more: further members, such as `available`.
    """
    # No middleware has found the language: only a refusal pays for it.
    body = _body(code, _language(request), detail, tuple(more.items()))
    reply = Reply(PROBLEMS[code].status, body, "application/problem+json")
    if (seconds := PROBLEMS[code].retry_after) is not None:
        reply.headers.append(("Retry-After", str(seconds)))
    return reply


def document(code: str, *, language: str = "en", detail: str = "", **more: int) -> Problem:
    """Build a problem as the API shows it; the other arguments are those of `problem`."""
    with override(language):
        title = str(PROBLEMS[code].title)
        if more.get("may_come_back"):
            detail = str(MAY_COME_BACK)
    return Problem(
        type=f"/api/docs#{code}",
        title=title,
        status=PROBLEMS[code].status,
        code=code,
        detail=detail or UNSET,
        **more,  # type: ignore[arg-type]
    )


def _language(request: HttpRequest) -> str:
    if "HTTP_COOKIE" in request.META:
        return get_language_from_request(request)  # a page's visitor may have chosen one
    return _accepted(request.META.get("HTTP_ACCEPT_LANGUAGE", ""))


# A sale has thousands of refusals of a few kinds, to clients that prefer a few languages.
@lru_cache(maxsize=1000)
def _accepted(languages: str) -> str:
    request = HttpRequest()
    request.META["HTTP_ACCEPT_LANGUAGE"] = languages
    return get_language_from_request(request)


@lru_cache(maxsize=1000)
def _body(code: str, language: str, detail: str, more: tuple[tuple[str, int], ...]) -> bytes:
    return msgspec.json.encode(document(code, language=language, detail=detail, **dict(more)))
