"""Middleware for pages only.

A call of the API carries its own token: it has no session, no cookie to forge, no page to frame.
These keep Django's middleware out of its way, which on a hot call costs as much as the view.
"""

from __future__ import annotations

from typing import Any

from django.contrib.auth.middleware import AuthenticationMiddleware
from django.contrib.messages.middleware import MessageMiddleware
from django.contrib.sessions.middleware import SessionMiddleware
from django.http import HttpRequest
from django.middleware.clickjacking import XFrameOptionsMiddleware
from django.middleware.common import CommonMiddleware
from django.middleware.csrf import CsrfViewMiddleware
from django.middleware.locale import LocaleMiddleware

API = "/api/v1/"


class PagesOnly:
    """Mixed into a middleware in front of its class: hands API calls straight on."""

    def __call__(self, request: HttpRequest) -> Any:
        """Skip the middleware for a call of the API."""
        if request.path_info.startswith(API):
            return self.get_response(request)  # type: ignore[attr-defined]
        return super().__call__(request)  # type: ignore[misc]


class PageSession(PagesOnly, SessionMiddleware):
    """Sessions."""


class PageLocale(PagesOnly, LocaleMiddleware):
    """The visitor's language."""


class PageCommon(PagesOnly, CommonMiddleware):
    """Slashes and content length."""


class PageCsrf(PagesOnly, CsrfViewMiddleware):
    """Forged forms. The API's views are exempt as well, see ``api.operations``."""


class PageAuthentication(PagesOnly, AuthenticationMiddleware):
    """Who is signed in."""


class PageMessages(PagesOnly, MessageMiddleware):
    """Messages shown once."""


class PageFrames(PagesOnly, XFrameOptionsMiddleware):
    """No framing."""
