"""The API's documentation, for browsers and for programs."""

from __future__ import annotations

import hashlib
from pathlib import Path

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.cache import cache_control
from django.views.decorators.http import condition, require_safe

from shop import messages
from shop.pages.language import reads_chinese

DESCRIPTION = (Path(__file__).resolve().parent.parent / "api" / "openapi.json").read_bytes()
"""The OpenAPI document, as it is in the repository."""

ETAG = f'"{hashlib.sha256(DESCRIPTION).hexdigest()[:16]}"'


def _etag(request: HttpRequest) -> str:
    return ETAG


@require_safe
@cache_control(public=True, max_age=60)
@condition(etag_func=_etag)
def openapi(request: HttpRequest) -> HttpResponse:
    """The OpenAPI document."""
    return HttpResponse(DESCRIPTION, content_type="application/json")


@require_safe
def browse(request: HttpRequest) -> HttpResponse:
    """The document to click through, and every problem code with an anchor of its own.

    A problem's ``type`` is the address of its anchor.
    """
    chinese = reads_chinese()
    problems = [
        (code, problem.status, messages.text(code, chinese=chinese))
        for code, problem in messages.PROBLEMS.items()
    ]
    return render(request, "shop/docs.html", {"problems": problems})
