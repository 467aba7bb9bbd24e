"""The room's HTTP server: the stream of frames, the actions, the duel's reports, the recordings.

Served from a port of its own, for the room must not take a place in a web process, and must go on
when those are killed. `ThreadingHTTPServer` has a thread for each viewer, of whom there are few.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from django.core.signing import BadSignature
from django.db import connection

from lab.room import tokens
from lab.room.duel import Duels, Replays
from lab.room.room import Room, encode

log = logging.getLogger(__name__)

MAX_VIEWERS = 20
MAX_BODY = 10_000
TIMEOUT = 10
"""Seconds that a viewer may take to receive a frame."""

Act = Callable[[str, dict[str, Any]], dict[str, Any]]
"""Carries out an action by its name and its arguments. Raises `Refused`."""

REPORT_POLICY = (
    "sandbox allow-scripts; default-src 'none'; style-src 'unsafe-inline'; "
    "script-src 'unsafe-inline'; img-src data:"
)
"""A report is one file with its styles and its script inside. It is served from this origin, which
has no cookies of its own, and in a sandbox."""


class Refused(Exception):
    """An action is impossible now; the message says why. `status` is the answer's."""

    def __init__(self, message: str, status: HTTPStatus = HTTPStatus.CONFLICT) -> None:
        super().__init__(message)
        self.status = status


class RoomServer(ThreadingHTTPServer):
    """Serves one room.

    Args:
        port: on 127.0.0.1.
        room: what is streamed.
        origins: of the pages that may use it.
        act: carries out the actions.
        duels: their reports and recordings.
        replays: the recorded rushes.
    """

    daemon_threads = True

    def __init__(
        self,
        port: int,
        room: Room,
        origins: frozenset[str],
        act: Act,
        duels: Duels,
        replays: Replays,
    ) -> None:
        super().__init__(("127.0.0.1", port), Handler)
        self.room, self.origins, self.act = room, origins, act
        self.duels, self.replays = duels, replays


class Handler(BaseHTTPRequestHandler):
    """Answers one connection."""

    protocol_version = "HTTP/1.1"
    timeout = TIMEOUT
    server: RoomServer

    def do_GET(self) -> None:  # the name is http.server's
        """Answer the stream, a report, or that the process is alive."""
        parts = urlsplit(self.path)
        if parts.path == "/healthz":
            self._answer(HTTPStatus.OK, b"ok\n", "text/plain")
            return
        # An EventSource and a link cannot send a header.
        if not self._may(parse_qs(parts.query).get("token", [""])[0]):
            return
        if parts.path == "/stream":
            self._stream()
        elif parts.path.startswith("/reports/"):
            self._report(self.server.duels.report(parts.path.removeprefix("/reports/")))
        elif parts.path == "/duel":
            self._recording(self.server.duels.recording().read_bytes())
        elif parts.path == "/replays/":
            self._tell(HTTPStatus.OK, self.server.replays.list())
        elif parts.path.startswith("/replays/"):
            self._recording(self.server.replays.find(parts.path.removeprefix("/replays/")))
        else:
            self._tell(HTTPStatus.NOT_FOUND, "not found")

    def do_OPTIONS(self) -> None:
        """Answer the browser's question whether the page may send an action."""
        self._answer(HTTPStatus.NO_CONTENT, b"", "text/plain")

    def do_POST(self) -> None:
        """Carry out an action."""
        scheme, _, token = self.headers.get("Authorization", "").partition(" ")
        body = self._body()
        if body is None or not self._may(token if scheme == "Bearer" else ""):
            return
        name = urlsplit(self.path).path.removeprefix("/actions/")
        try:
            document = json.loads(body or b"{}")
            if not isinstance(document, dict):
                raise ValueError("not an object")
            self._tell(HTTPStatus.OK, self.server.act(name, document))
        except ValueError as error:
            self._tell(HTTPStatus.BAD_REQUEST, str(error))
        except Refused as error:
            self._tell(error.status, str(error))
        except Exception as error:  # the page tells what the log has in full
            log.exception("action %s", name)
            self._tell(HTTPStatus.INTERNAL_SERVER_ERROR, f"{type(error).__name__}: {error}")
        finally:
            connection.close()

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Log nothing: addresses contain tokens."""

    def _body(self) -> bytes | None:
        length = self.headers.get("Content-Length", "0")
        if not length.isdecimal() or int(length) > MAX_BODY:
            self.close_connection = True
            self._tell(HTTPStatus.BAD_REQUEST, "the body is too long")
            return None
        return self.rfile.read(int(length))

    def _may(self, token: str) -> bool:
        origin = self.headers.get("Origin")
        if origin is not None and origin not in self.server.origins:
            self._tell(HTTPStatus.FORBIDDEN, "this page may not use the room")
            return False
        try:
            tokens.verify(token)
        except BadSignature:
            self._tell(HTTPStatus.UNAUTHORIZED, "the token is invalid or has expired")
            return False
        return True

    def _stream(self) -> None:
        room = self.server.room
        if room.viewers >= MAX_VIEWERS:
            self._tell(HTTPStatus.SERVICE_UNAVAILABLE, "too many viewers")
            return
        room.enter()
        try:
            self._head(HTTPStatus.OK, "text/event-stream")
            self.close_connection = True  # the end of the stream is the end of the connection
            self._send_frames(room)
        except OSError:
            return  # the viewer has left
        finally:
            room.leave()

    def _send_frames(self, room: Room) -> None:
        end = time.monotonic() + tokens.LIFETIME
        greeting = room.greeting()
        self.wfile.write(encode("hello", greeting))
        number, told = 0, max((event["id"] for event in greeting["events"]), default=0)
        while not room.ended and time.monotonic() < end:
            number, frame = room.next(number)
            events = room.timeline.since(told)
            told = events[-1]["id"] if events else told
            self.wfile.write(encode("frame", {**frame, "events": events}))

    def _report(self, found: Path | None) -> None:
        if found is None:
            self._tell(HTTPStatus.NOT_FOUND, "this report does not exist or was deleted")
            return
        policy = {"Content-Security-Policy": REPORT_POLICY}
        self._answer(HTTPStatus.OK, found.read_bytes(), "text/html; charset=utf-8", policy)

    def _recording(self, found: bytes | None) -> None:
        if found is None:
            self._tell(HTTPStatus.NOT_FOUND, "this recording does not exist or was deleted")
            return
        self._answer(HTTPStatus.OK, found, "application/json")

    def _tell(self, status: HTTPStatus, what: str | dict[str, Any]) -> None:
        document = {"detail": what} if isinstance(what, str) else what
        self._answer(status, json.dumps(document).encode(), "application/json")

    def _answer(
        self, status: HTTPStatus, body: bytes, kind: str, more: dict[str, str] | None = None
    ) -> None:
        self._head(status, kind, {**(more or {}), "Content-Length": str(len(body))})
        self.wfile.write(body)

    def _head(self, status: HTTPStatus, kind: str, more: dict[str, str] | None = None) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Cache-Control", "no-store")
        self.send_header("X-Content-Type-Options", "nosniff")
        if self.close_connection:
            # Otherwise the client may send its next request on a connection that is being closed.
            self.send_header("Connection", "close")
        origin = self.headers.get("Origin")
        if origin in self.server.origins:
            self.send_header("Access-Control-Allow-Origin", str(origin))
            self.send_header("Access-Control-Allow-Headers", "Authorization, Content-Type")
            self.send_header("Access-Control-Max-Age", "600")
            self.send_header("Vary", "Origin")
        for name, value in (more or {}).items():
            self.send_header(name, value)
        self.end_headers()
