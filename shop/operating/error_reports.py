"""Errors to Sentry, off unless SENTRY_DSN is set.

A report has the traceback and the log line of an error and no personal data: no user, address,
cookie, header, body, query string or local variable. sentry-sdk is imported when it starts
(requirements/telemetry.txt).
"""

from __future__ import annotations

from typing import Any

from django.core.exceptions import ImproperlyConfigured

from shop import environment
from shop.operating.tracing import without_token

REQUEST = ("method", "url")
"""What a report keeps of its request."""


def start() -> None:
    """Report this process's errors, if SENTRY_DSN says where to.

    Raises:
        ImproperlyConfigured: sentry-sdk is not installed.
    """
    if not environment.is_set("SENTRY_DSN"):
        return
    try:
        import sentry_sdk
    except ImportError as error:
        raise ImproperlyConfigured(
            f"SENTRY_DSN needs requirements/telemetry.txt installed: {error}"
        ) from error
    sentry_sdk.init(**options())


def options() -> dict[str, Any]:
    """Return the options of `sentry_sdk.init`."""
    return {
        "dsn": environment.text("SENTRY_DSN"),
        "send_default_pii": False,
        "include_local_variables": False,  # they hold tokens, addresses and passwords
        "max_request_body_size": "never",
        "auto_session_tracking": False,
        "max_breadcrumbs": 0,  # they hold what was logged and queried before, for other buyers
        "before_send": without_personal_data,
    }


def without_personal_data(event: Any, _hint: Any) -> Any:
    """Return an event with only what cannot name a person."""
    event.pop("user", None)
    if "request" in event:
        request = event["request"]
        event["request"] = {
            name: without_token(request[name]) for name in REQUEST if name in request
        }
    return event
