"""Refusals as pages show them."""

from __future__ import annotations

from django.http import HttpResponse
from django.utils.translation import gettext, gettext_lazy

from shop.refusals import PROBLEMS

_OUT_OF_DATE = gettext_lazy("This page was out of date. Please try again.")

ON_PAGE = {
    "idempotency_key_missing": _OUT_OF_DATE,
    "idempotency_key_reused": _OUT_OF_DATE,
    "outcome_unknown": gettext_lazy(
        "We cannot tell yet whether your order was placed. Press the button again to check; "
        "it cannot place a second order."
    ),
}
"""Messages for codes whose API message mentions headers: a visitor has a button instead."""


def message(code: str, *, may_come_back: int = False, **_: int) -> str:
    """Return a page's message for a code, in the visitor's language.

    Args:
        code: one of `PROBLEMS`.
        may_come_back: unpaid orders hold units that may go back on sale.
    """
    if may_come_back:
        return gettext(
            "There are not enough items left right now. Some orders are still unpaid; "
            "items that are not paid for in time go back on sale."
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
