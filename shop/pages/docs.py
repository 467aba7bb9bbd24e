"""The API's documentation: a page for readers, a JSON document for programs."""

from __future__ import annotations

from functools import cache

import msgspec
from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.cache import cache_control
from django.views.decorators.http import conditional_page, require_safe

from shop.api.openapi import document
from shop.operating import headers
from shop.refusals import PROBLEMS


@cache
def description() -> bytes:
    """Return the OpenAPI document as JSON."""
    return msgspec.json.encode(document())


@require_safe
@cache_control(public=True, max_age=60)
@conditional_page
def openapi(request: HttpRequest) -> HttpResponse:
    """Serve the OpenAPI document."""
    return HttpResponse(description(), content_type="application/json")


@require_safe
def browse(request: HttpRequest) -> HttpResponse:
    """Show the documentation and a table of problem codes, each with its anchor.

    A problem's `type` is the address of its anchor.
    """
    frame = "shop/base.html" if settings.SHOP_PAGES else "shop/bare.html"
    response = render(request, "shop/docs.html", {"frame": frame, "problems": PROBLEMS})
    response.headers[headers.POLICY] = headers.API_DOCS
    return response
