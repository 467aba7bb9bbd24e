"""Middleware that a team adds to the shop, and the API's way through it.

The API's calls pass Django's middleware and the shop's by (shop/api/handler.py). What else
`MIDDLEWARE` names is there for every request, so these calls go through that, and only that.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from django.conf import settings
from django.core.exceptions import MiddlewareNotUsed
from django.core.handlers.exception import convert_exception_to_response
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.utils.module_loading import import_string

PASSED_BY = frozenset(
    {
        "django.contrib.auth.middleware.AuthenticationMiddleware",
        "django.contrib.messages.middleware.MessageMiddleware",
        "django.contrib.sessions.middleware.SessionMiddleware",
        "django.middleware.clickjacking.XFrameOptionsMiddleware",
        "django.middleware.common.CommonMiddleware",
        "django.middleware.csrf.CsrfViewMiddleware",
        "django.middleware.locale.LocaleMiddleware",
        "django.middleware.security.SecurityMiddleware",
        "django_otp.middleware.OTPMiddleware",
        "serving.bodies.whole_bodies",
        "shop.operating.headers.security_headers",
        "shop.pages.refusals.BadQuery",
        "shop.pages.refusals.Busy",
        "whitenoise.middleware.WhiteNoiseMiddleware",
    }
)
"""Middleware for pages. What the API needs of it, its own handler does."""


def added() -> list[str]:
    """Return the middleware that the project has added, outermost first."""
    return [name for name in settings.MIDDLEWARE if name not in PASSED_BY]


class Chain:
    """Added middleware around the API's views, as Django would call it.

    Args:
        names: dotted paths, outermost first.

    Raises:
        ImportError: there is no such middleware.
    """

    def __init__(self, names: Sequence[str]) -> None:
        self._before_view: list[Callable[..., HttpResponseBase | None]] = []
        # Django's stubs allow for coroutines; a chain of WSGI has none.
        self._answer: Any = convert_exception_to_response(self._call_view)
        for name in reversed(names):
            try:
                middleware: Any = import_string(name)(self._answer)
            except MiddlewareNotUsed:
                continue
            if hasattr(middleware, "process_view"):
                self._before_view.insert(0, middleware.process_view)
            self._answer = convert_exception_to_response(middleware)

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        """Answer a request, whose `resolver_match` names the view."""
        answer: HttpResponseBase = self._answer(request)
        return answer

    def _call_view(self, request: HttpRequest) -> HttpResponseBase:
        view, arguments, ids = request.resolver_match  # type: ignore[misc]
        for process_view in self._before_view:
            if (response := process_view(request, view, arguments, ids)) is not None:
                return response
        answer: HttpResponseBase = view(request, **ids)
        return answer
