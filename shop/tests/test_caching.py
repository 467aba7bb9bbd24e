"""What sets a cookie, or depends on one, is kept by no cache on the way."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client
from django.urls import get_resolver
from django.urls.resolvers import URLPattern

from shop.tests.catalogue import a_buyer, a_sale

# Without a transaction around all requests, which PostgreSQL would end if one of them takes long.
pytestmark = pytest.mark.django_db(transaction=True)


def paths() -> list[str]:
    """Return every address of the shop that takes no arguments."""
    found = []
    for pattern in get_resolver().url_patterns:
        for each in getattr(pattern, "url_patterns", [pattern]):
            outer = "" if pattern is each else str(pattern.pattern)
            if isinstance(each, URLPattern) and "<" not in f"{outer}{each.pattern}":
                found.append(f"/{outer}{each.pattern}".replace("\\Z", "").replace("$", ""))
    return sorted(set(found))


def test_page_with_a_cookie_is_not_cached_by_others() -> None:
    buyer, sale = a_buyer(), a_sale()
    signed_in = Client()
    signed_in.force_login(buyer)
    seen = 0
    for path in [*paths(), f"/sales/{sale.pk}/", "/password-reset/", "/api/docs", "/nothing"]:
        for browser in (Client(), signed_in):
            answer: Any = browser.get(path)
            if answer.cookies or "cookie" in answer.headers.get("Vary", "").lower():
                seen += 1
                control = answer.headers.get("Cache-Control", "")
                assert "private" in control or "no-store" in control, path
            # The files of the documentation's site; `close` would end the test's transaction too.
            for close in answer._resource_closers:
                close()
    assert seen > 5
