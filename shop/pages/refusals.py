"""Refusals as pages show them, and errors: pages for visitors, problems for programs."""

from __future__ import annotations

import sys
from collections.abc import Callable

from django.conf import settings
from django.db import DataError, InterfaceError, OperationalError
from django.http import HttpRequest, HttpResponse, HttpResponseBadRequest
from django.template.loader import render_to_string
from django.utils.translation import gettext, gettext_lazy
from django.views import defaults

from shop.api.handler import API
from shop.api.problems import problem
from shop.refusals import PROBLEMS, Refusal

_OUT_OF_DATE = gettext_lazy("This page was out of date. Please try again.")

NEW_KEY = frozenset({"idempotency_key_missing", "idempotency_key_reused", "price_changed"})
"""Codes after which the form needs another key: none is there, it is another purchase's, or it says
a price that no longer holds. After the others, a purchase can be repeated under the same key."""

ON_PAGE = {
    "idempotency_key_missing": _OUT_OF_DATE,
    "idempotency_key_reused": _OUT_OF_DATE,
    "price_changed": gettext_lazy(
        "The price has risen since you opened this page. Please check the new price before you buy."
    ),
    "outcome_unknown": gettext_lazy(
        "We cannot tell yet whether your order was placed. Press the button again to check; "
        "it cannot place a second order."
    ),
}
"""Messages for codes whose API message mentions headers: a visitor has a button instead."""


def message(code: str, *, may_come_back: int = False, left: int = 0, **_: int) -> str:
    """Return a page's message for a code, in the visitor's language.

    Args:
        code: one of `PROBLEMS`.
        may_come_back: unpaid orders hold units that may go back on sale.
        left: units that the buyer may still have.
    """
    if left:
        return gettext("You can buy at most %(left)s more in this sale.") % {"left": left}
    if may_come_back:
        return gettext(
            "There are not enough items left right now. Some orders are not final yet; "
            "their items may go back on sale."
        )
    return str(ON_PAGE.get(code, PROBLEMS[code].title))


def mark(response: HttpResponse, code: str) -> HttpResponse:
    """Set the status and the Retry-After header of a code on a page."""
    problem = PROBLEMS[code]
    response.status_code = problem.status
    # Django would log each of thousands of refusals, which are not errors.
    response._has_been_logged = True  # type: ignore[attr-defined]
    if problem.retry_after is not None:
        response.headers["Retry-After"] = str(problem.retry_after)
    return response


def not_found(request: HttpRequest, exception: Exception) -> HttpResponse:
    """Answer 404: a page, or a problem for a call of the API."""
    if _answers_programs(request):
        return problem(request, "not_found").response()
    return defaults.page_not_found(request, exception)


def server_error(request: HttpRequest) -> HttpResponse:
    """Answer 500, or 503 if the database is unreachable. Use nothing that may have failed."""
    away = isinstance(sys.exc_info()[1], OperationalError | InterfaceError)
    status = 503 if away else 500
    if _answers_programs(request):
        return problem(request, "busy" if away else "internal_error").response()
    response = HttpResponse(render_to_string(f"{status}.html"), status=status)
    if away:
        response.headers["Retry-After"] = str(PROBLEMS["busy"].retry_after)
    return response


class Busy:
    """Middleware that answers 503 where a page is refused as `busy`, such as a crowd's sign-ins."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        """Answer a request."""
        return self._get_response(request)

    def process_exception(self, request: HttpRequest, exception: Exception) -> HttpResponse | None:
        """Return the answer to a request that was refused; None if it failed otherwise."""
        if not isinstance(exception, Refusal) or exception.code != "busy":
            return None
        return mark(HttpResponse(render_to_string("503.html")), exception.code)


class BadQuery:
    """Middleware that answers 400 where a query string holds what the database cannot read.

    Such as a NUL character in what the admin's search of choices is asked for. Forms check their
    fields, and lists their filters (`inventory/checked_admin.py`).
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        """Answer a request."""
        return self._get_response(request)

    def process_exception(self, request: HttpRequest, exception: Exception) -> HttpResponse | None:
        """Return the answer to a query that cannot be read; None for another failure."""
        if request.method not in ("GET", "HEAD") or not request.GET:
            return None
        if not isinstance(exception, DataError | OverflowError):
            return None
        return HttpResponseBadRequest(render_to_string("400.html"))


def _answers_programs(request: HttpRequest) -> bool:
    return request.path_info.startswith(API) or not settings.SHOP_PAGES
