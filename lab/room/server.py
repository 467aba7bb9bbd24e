"""The room's HTTP server: the stream of frames, the actions, the rush's history, the duel's
reports and recordings.

Served from a port of its own, for the room must not take a place in a web process, and must go on
when those are killed. It has a thread for each viewer, of whom there are few.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Iterator
from http import HTTPStatus
from typing import Any

from django.core.handlers.wsgi import WSGIHandler
from django.core.servers.basehttp import ThreadedWSGIServer, WSGIRequestHandler
from django.core.signing import BadSignature
from django.http import (
    HttpRequest,
    HttpResponse,
    HttpResponseBase,
    JsonResponse,
    StreamingHttpResponse,
)

from lab.room import views
from lab.room.duel import Duels
from lab.room.permissions import PERMISSIONS
from lab.room.room import Refused, Room, encode
from lab.room.rush import Rush

log = logging.getLogger(__name__)

MAX_VIEWERS = 20
MAX_BODY = 10_000
TIMEOUT = 10
"""Seconds that a viewer may take to receive a frame."""

Act = Callable[[str, dict[str, Any]], None]
"""Carries out an action by its name and its arguments. Raises `Refused`."""

REPORT_POLICY = (
    "sandbox allow-scripts; default-src 'none'; style-src 'unsafe-inline'; "
    "script-src 'unsafe-inline'; img-src data:"
)
"""A report is one file with its styles and its script inside. It is served from this origin, which
has no cookies of its own, and in a sandbox."""


class Answers(WSGIHandler):
    """Answers one request after the other, each without the shop's middleware and its sessions.

    Args:
        room: what is streamed.
        origins: of the pages that may use it.
        act: carries out the actions.
        rush: the histories of the last ones.
        duels: their reports and recordings.
    """

    def __init__(
        self, room: Room, origins: frozenset[str], act: Act, rush: Rush, duels: Duels
    ) -> None:
        self.room, self._origins, self._act = room, origins, act
        self._rush, self._duels = rush, duels

    def get_response(self, request: HttpRequest) -> HttpResponseBase:
        """Answer a request; a page of another origin may not read the answer."""
        response = self._answer(request)
        response.headers["Cache-Control"] = "no-store"
        response.headers["X-Content-Type-Options"] = "nosniff"
        origin = request.headers.get("Origin", "")
        if origin in self._origins:
            response.headers["Access-Control-Allow-Origin"] = origin
            response.headers["Access-Control-Allow-Headers"] = "Authorization, Content-Type"
            response.headers["Access-Control-Max-Age"] = "600"
            response.headers["Vary"] = "Origin"
        return response

    def _answer(self, request: HttpRequest) -> HttpResponseBase:
        # The browser asks by OPTIONS whether the page may send an action.
        if request.method == "OPTIONS":
            return HttpResponse(status=HTTPStatus.NO_CONTENT)
        if request.path == "/healthz":
            return HttpResponse("ok\n", content_type="text/plain")
        origin = request.headers.get("Origin")
        if origin is not None and origin not in self._origins:
            return _detail(HTTPStatus.FORBIDDEN, "this page may not use the room")
        # An EventSource and a link cannot send a header.
        token = request.GET.get("token", "")
        if request.method == "POST":
            scheme, _, token = request.headers.get("Authorization", "").partition(" ")
            token = token if scheme == "Bearer" else ""
        try:
            allowed = views.verify(token)
        except BadSignature:
            return _detail(HTTPStatus.UNAUTHORIZED, "the token is invalid or has expired")
        if request.method != "POST":
            return self._read(request.path)
        name = request.path.removeprefix("/actions/")
        if name in PERMISSIONS and name not in allowed:
            missing = f"you may not do this: it needs the permission {PERMISSIONS[name]}"
            return _detail(HTTPStatus.FORBIDDEN, missing)
        return self._carry_out(request, name)

    def _read(self, path: str) -> HttpResponseBase:
        _, kind, *rest = path.split("/", 2)
        match kind, rest:
            case "stream", []:
                return self._stream()
            case "duel", []:
                found = self._duels.recording().read_bytes()
                return HttpResponse(found, content_type="application/json")
            case "rushes", [number] if (lines := self._rush.history(number)) is not None:
                return StreamingHttpResponse(lines, content_type="application/x-ndjson")
            case "reports", [report]:
                return self._report(report)
        return _detail(HTTPStatus.NOT_FOUND, "not found")

    def _carry_out(self, request: HttpRequest, name: str) -> HttpResponse:
        try:
            if int(request.META.get("CONTENT_LENGTH") or 0) > MAX_BODY:
                raise ValueError("the body is too long")
            document = json.loads(request.body or b"{}")
            if not isinstance(document, dict):
                raise ValueError("not an object")
            self._act(name, document)
        except ValueError as error:
            return _detail(HTTPStatus.BAD_REQUEST, str(error))
        except Refused as error:
            return _detail(error.status, str(error))
        except Exception as error:  # the page tells what the log has in full
            log.exception("action %s", name)
            return _detail(HTTPStatus.INTERNAL_SERVER_ERROR, f"{type(error).__name__}: {error}")
        return JsonResponse({})

    def _stream(self) -> HttpResponseBase:
        if self.room.viewers >= MAX_VIEWERS:
            return _detail(HTTPStatus.SERVICE_UNAVAILABLE, "too many viewers")
        return StreamingHttpResponse(self._frames(), content_type="text/event-stream")

    def _frames(self) -> Iterator[bytes]:
        """Yield the stream's events until the token has expired or the viewer has left."""
        room, end = self.room, time.monotonic() + views.LIFETIME
        with room.viewing():
            greeting = room.greeting()
            yield encode("hello", greeting)
            number, last = 0, max((event["id"] for event in greeting["events"]), default=0)
            while not room.ended and time.monotonic() < end:
                number, frame = room.next(number)
                events = room.timeline.since(last)
                last = events[-1]["id"] if events else last
                yield encode("frame", {**frame, "events": events})

    def _report(self, path: str) -> HttpResponse:
        kind, _, number = path.partition("/")
        found = self._rush.report(number) if kind == "rush" else self._duels.report(path)
        if found is None:
            return _detail(HTTPStatus.NOT_FOUND, "this report does not exist or was deleted")
        policy = {"Content-Security-Policy": REPORT_POLICY}
        return HttpResponse(found.read_bytes(), headers=policy)


def _detail(status: HTTPStatus, what: str) -> HttpResponse:
    return JsonResponse({"detail": what}, status=status)


class Handler(WSGIRequestHandler):
    """Reads the requests of one connection."""

    timeout = TIMEOUT

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Log nothing: addresses contain views."""


class RoomServer(ThreadedWSGIServer):
    """Serves one room on 127.0.0.1.

    Args:
        port: to listen on; 0 for any.
        answers: to every request.

    Attributes:
        room: what is served.
    """

    def __init__(self, port: int, answers: Answers) -> None:
        super().__init__(("127.0.0.1", port), Handler)
        self.set_app(answers)
        self.room = answers.room

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing: a viewer has left, or its connection was idle for too long."""
