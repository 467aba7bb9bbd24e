"""Refusals as ``application/problem+json`` (RFC 9457), with a stable ``code``."""

from __future__ import annotations

from functools import cache

import msgspec
from django.http import HttpRequest, HttpResponse
from msgspec import UNSET

from shop import messages
from shop.api.schemas import Problem


def problem(request: HttpRequest, code: str, *, detail: str = "", **more: int) -> HttpResponse:
    """The answer for a code, in the client's language.

    Args:
        request: for its Accept-Language header.
        code: one of ``words.PROBLEMS``.
        detail: what exactly is wrong, in English.
        more: further members, such as ``available``.
    """
    chinese = messages.is_chinese(request.META.get("HTTP_ACCEPT_LANGUAGE", ""))
    if detail or more:
        body = msgspec.json.encode(document(code, chinese=chinese, detail=detail, **more))
    else:
        body = _body(code, chinese)
    response = answer(body, messages.PROBLEMS[code].status, "application/problem+json")
    # A refusal is an outcome, not an event: Django would write a log line for each of thousands.
    response._has_been_logged = True  # type: ignore[attr-defined]
    if code in messages.RETRY_AFTER:
        response.headers["Retry-After"] = str(messages.RETRY_AFTER[code])
    return response


def answer(body: bytes, status: int, content_type: str) -> HttpResponse:
    """A response with its length, without which it would go out in chunks."""
    headers = {"Content-Type": content_type, "Content-Length": str(len(body))}
    return HttpResponse(body, status=status, headers=headers)


def document(code: str, *, chinese: bool = False, detail: str = "", **more: int) -> Problem:
    """A problem as the API shows it; the arguments are those of ``problem``."""
    if more.get("may_come_back"):
        detail = messages.MAY_COME_BACK.zh if chinese else messages.MAY_COME_BACK.en
    return Problem(
        type=f"/api/docs#{code}",
        title=messages.text(code, chinese=chinese),
        status=messages.PROBLEMS[code].status,
        code=code,
        detail=detail or UNSET,
        **more,  # type: ignore[arg-type]
    )


@cache
def _body(code: str, chinese: bool) -> bytes:
    return msgspec.json.encode(document(code, chinese=chinese))
