"""Security headers beyond Django's: what a page may load, and who may frame it.

No page has an inline script or handler, so the policy allows none; an injected one does not run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from django.http import HttpRequest, HttpResponseBase
from django.utils.cache import add_never_cache_headers, has_vary_header, patch_cache_control

POLICY = "Content-Security-Policy"

PAGES = (
    "default-src 'self'; form-action 'self'; base-uri 'none'; object-src 'none'; "
    "frame-ancestors 'none'"
)
"""For all pages and the admin."""

API_DOCS = f"{PAGES}; style-src 'self' 'unsafe-inline'; img-src 'self' data:"
"""Swagger UI writes style attributes and draws its icons from data."""

API = "default-src 'none'; frame-ancestors 'none'"

ALL_PAGES = {
    POLICY: PAGES,
    "Permissions-Policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
}

ALL_CALLS = {
    POLICY: API,
    # Orders and tokens are private.
    "Cache-Control": "no-store",
}


def with_sources(sources: Mapping[str, str]) -> dict[str, str]:
    """Return the headers of a page that loads a payment provider's script.

    Args:
        sources: what it needs besides the shop's own, by directive of the policy, such as
            `{"script-src": "https://js.example.com"}`.
    """
    more = "".join(f"; {name} 'self' {value}" for name, value in sources.items())
    hosts = " ".join(f'"{host}"' for host in sources.get("script-src", "").split())
    permissions = ALL_PAGES["Permissions-Policy"].replace("payment=()", f"payment=(self {hosts})")
    return {POLICY: PAGES + more, "Permissions-Policy": permissions}


Handler = Callable[[HttpRequest], HttpResponseBase]


def security_headers(get_response: Handler) -> Handler:
    """Add the headers of pages to every response that does not have its own.

    A response that sets a cookie or depends on one is one visitor's: without a `Cache-Control` of
    its own, no cache on the way may keep it.
    """

    def middleware(request: HttpRequest) -> HttpResponseBase:
        response = get_response(request)
        if response.cookies or has_vary_header(response, "Cookie"):
            patch_cache_control(response, private=True)
            if response.headers["Cache-Control"] == "private":
                add_never_cache_headers(response)
        for name, value in ALL_PAGES.items():
            response.headers.setdefault(name, value)
        return response

    return middleware
