"""Error handlers: pages for visitors, problems for the API and in a shop without pages."""

from __future__ import annotations

import sys

from django.conf import settings
from django.db import InterfaceError, OperationalError
from django.http import HttpRequest, HttpResponse
from django.template.loader import render_to_string
from django.views import defaults

from shop.api.handler import API
from shop.api.problems import problem
from shop.refusals import PROBLEMS


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


def _answers_programs(request: HttpRequest) -> bool:
    return request.path_info.startswith(API) or not settings.SHOP_PAGES
