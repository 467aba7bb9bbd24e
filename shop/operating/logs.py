"""Log lines as JSON, each with the ids of the request, task and order that it is about.

A request costs one assignment: its ids are read when something is logged, which is rare. The
proxy's `X-Request-ID` (docker/nginx) is the request's id, and its answer carries it too; a
`traceparent` header (W3C Trace Context) gives the trace's.
"""

from __future__ import annotations

import json
import logging
import re
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

from django.core.exceptions import ImproperlyConfigured

from shop import environment

LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")

REQUEST_ID = re.compile(r"[0-9A-Za-z-]{8,64}")
TRACEPARENT = re.compile(r"[0-9a-f]{2}-([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}")
ORDER = re.compile(r"/orders/(\d{1,19})(?:/|$)")

OWN_ID = "shop.request_id"
"""In the environ: the id of a request that came without one."""

SPAN = "shop.span"
"""In the environ: the request's span, if it has one."""

request: ContextVar[dict[str, Any] | None] = ContextVar("request", default=None)
"""The environ of the request to which this thread's lines belong, until its next one."""

task: ContextVar[tuple[str, str] | None] = ContextVar("task", default=None)
"""The name and id of the Celery task to which this thread's lines belong, until its next one."""

_ORDINARY = {*vars(logging.makeLogRecord({})), "message", "asctime", "taskName"}
"""Attributes of every record; any other was given as `extra`."""


def ids() -> dict[str, str]:
    """Return the ids of what this thread is doing: request, trace, order, task."""
    ids: dict[str, str] = {}
    if (current := task.get()) is not None:
        ids["task"], ids["task_id"] = current
    if (environ := request.get()) is not None:
        ids["request"] = _request_id(environ)
        if (span := environ.get(SPAN)) is not None:
            ids["trace"] = f"{span.get_span_context().trace_id:032x}"
        elif trace := TRACEPARENT.fullmatch(environ.get("HTTP_TRACEPARENT", "")):
            ids["trace"] = trace[1]
        if order := ORDER.search(environ.get("PATH_INFO", "")):
            ids["order"] = order[1]
    return ids


def _request_id(environ: dict[str, Any]) -> str:
    given = environ.get("HTTP_X_REQUEST_ID", "")
    if REQUEST_ID.fullmatch(given):
        return str(given)
    return str(environ.setdefault(OWN_ID, uuid4().hex))


class Json(logging.Formatter):
    """Writes one JSON object per line."""

    def format(self, record: logging.LogRecord) -> str:
        """Return a record as JSON."""
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "process": record.process,
            "message": record.getMessage(),
            **ids(),
        }
        extra = vars(record).keys() - _ORDINARY
        line.update({name: getattr(record, name) for name in sorted(extra)})
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False, default=repr)


FORMATTERS: dict[str, dict[str, str]] = {
    "json": {"()": "shop.operating.logs.Json"},
    "line": {"format": "{asctime} {levelname} {process} {name}: {message}", "style": "{"},
}


def formatter() -> dict[str, str]:
    """Return the formatter that LOG_FORMAT chooses; unset: JSON, in the demo lines.

    Raises:
        ImproperlyConfigured: LOG_FORMAT names none.
    """
    chosen = environment.text("LOG_FORMAT")
    if not chosen:
        chosen = "line" if environment.switch("SHOP_DEMO") else "json"
    if chosen not in FORMATTERS:
        raise ImproperlyConfigured(f"LOG_FORMAT must be json or line, not {chosen!r}.")
    return FORMATTERS[chosen]
