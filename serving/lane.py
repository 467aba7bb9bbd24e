"""The lane: a shorter way through gunicorn for the small calls of an API.

gunicorn reads and answers a request for whatever application may follow, in Python. A call below
the lane's prefix is read by `serving/calls.py` and answered with one send.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from functools import lru_cache
from itertools import chain
from typing import Any

import gevent
from gunicorn import http, util
from gunicorn.http import wsgi
from gunicorn.workers.ggevent import GeventWorker

from serving.calls import Call, Headers, Parser

UNLIMITED = nullcontext()

KEYS = {"CONTENT-TYPE": "CONTENT_TYPE", "CONTENT-LENGTH": "CONTENT_LENGTH"}

SETTINGS = (
    *("limit_request_line", "limit_request_fields", "limit_request_field_size"),
    *("proxy_protocol", "accesslog"),
)
"""gunicorn's settings that `serving/calls.py` does not follow. If one is changed, gunicorn reads
the calls too."""


def allows_lane(cfg: Any) -> bool:
    """Return whether calls may take the lane under these settings of gunicorn."""
    settings = [cfg.settings[name] for name in SETTINGS]
    usual = all(each.get() == each.default for each in settings)
    return usual and not cfg.is_ssl and not os.environ.get("SCRIPT_NAME")


class Response:
    """What an application answers, until it is sent."""

    status = ""
    headers: Headers

    def start(self, status: str, headers: Headers, exc_info: Any = None) -> Callable[[bytes], None]:
        """Take the status and headers: WSGI's `start_response`."""
        self.status, self.headers = status, headers
        return _never_written

    def packet(self, body: bytes, *, close: bool) -> bytes | None:
        """Return the answer as it is sent; None if this is not all of it, or not of the usual form.

        Args:
            body: the application's first part.
            close: whether the connection ends with it.
        """
        if not body or ("Content-Length", str(len(body))) not in self.headers:
            return None
        lines = [f"{name}: {value}\r\n" for name, value in self.headers]
        head = (
            f"HTTP/1.1 {self.status}\r\n"
            f"Server: {wsgi.SERVER}\r\n"
            f"Date: {_date(int(time.time()))}\r\n"
            f"Connection: {'close' if close else 'keep-alive'}\r\n"
            f"{''.join(lines)}\r\n"
        )
        # A line break in a value would be another header.
        if head.count("\n") != len(lines) + 5 or head.count("\r") != len(lines) + 5:
            return None
        return head.encode("latin-1") + body


@lru_cache(maxsize=1)
def _date(second: int) -> str:
    return str(util.http_date(second))


_gunicorns_parser = http.get_parser


def _never_written(data: bytes) -> None:
    raise NotImplementedError("a call's answer is returned, not written")


class LaneWorker(GeventWorker):
    """gunicorn's gevent worker with a lane for an API's calls.

    A server hook such as `post_fork` sets the attributes.

    Attributes:
        lane: prefix of the paths that take the lane, such as `/api/`; empty: none does.
        read_timeout: seconds for a request's head to arrive, and again for its body.
    """

    lane = ""
    read_timeout = 10.0

    def init_process(self) -> None:
        """Prepare what all calls share."""
        if self.cfg.protocol == "http":
            http.get_parser = self._get_parser
        self._environ = {**wsgi.base_environ(self.cfg), "wsgi.multithread": True, "SCRIPT_NAME": ""}
        if not allows_lane(self.cfg):
            self.lane = ""
        super().init_process()

    def _get_parser(self, cfg: Any, source: Any, peer: Any, http2_connection: bool = False) -> Any:
        if http2_connection:
            return _gunicorns_parser(cfg, source, peer, http2_connection)
        # The peer of a Unix socket has no address that the application could be given.
        prefix = self.lane if isinstance(peer, tuple) else ""
        return Parser(cfg, source, peer, seconds=self.read_timeout, prefix=prefix)

    def timeout_ctx(self) -> AbstractContextManager[Any]:
        """Add no limit: the parser's reads have their own."""
        return UNLIMITED if self.cfg.protocol == "http" else super().timeout_ctx()

    def handle_request(self, listener_name: Any, req: Any, sock: Any, addr: Any) -> None:
        """Answer a request.

        Raises:
            StopIteration: the connection ends.
        """
        try:
            if not isinstance(req, Call):
                super().handle_request(listener_name, req, sock, addr)
                return
            self.nr += 1
            if self.nr >= self.max_requests:
                self.alive = False
            req.must_close = not self.alive or not self.cfg.keepalive
            self._answer(req, self._environ_of(req, listener_name, sock, addr), sock)
        except TimeoutError:  # the client does not read its answer
            raise StopIteration from None
        except (gevent.GreenletExit, SystemExit):  # the worker ends
            return
        if req.should_close():
            raise StopIteration

    def _environ_of(self, call: Call, server: Any, sock: Any, addr: Any) -> dict[str, Any]:
        environ = {
            **self._environ,
            "wsgi.url_scheme": call.scheme,
            "wsgi.input": call.body,
            "gunicorn.socket": sock,
            "REQUEST_METHOD": call.method,
            "RAW_URI": call.uri,
            "PATH_INFO": call.path,
            "QUERY_STRING": call.query,
            "SERVER_PROTOCOL": "HTTP/1.1",
            "SERVER_NAME": server[0],
            "SERVER_PORT": str(server[1]),
            "REMOTE_ADDR": addr[0],
            "REMOTE_PORT": str(addr[1]),
        }
        for name, value in call.fields.items():
            environ[KEYS.get(name) or "HTTP_" + name.replace("-", "_")] = value
        return environ

    def _answer(self, call: Call, environ: dict[str, Any], sock: Any) -> None:
        response = Response()
        parts = self.wsgi(environ, response.start)
        try:
            rest = iter(parts)
            body = next(rest, b"")
            packet = response.packet(body, close=call.should_close())
            if packet is None:
                self._stream(call, response, chain((body,), rest), sock)
            else:
                # Nearly always all of it; gevent's `sendall` takes four calls to find that out.
                sent = sock.send(packet)
                if sent < len(packet):
                    sock.sendall(packet[sent:])
        finally:
            if hasattr(parts, "close"):
                parts.close()

    def _stream(self, call: Call, pending: Response, parts: Iterable[bytes], sock: Any) -> None:
        """Send an answer as gunicorn does."""
        response = wsgi.Response(call, sock, self.cfg)
        try:
            response.start_response(pending.status, pending.headers)
            for part in parts:
                response.write(part)
            response.close()
        except OSError:  # the connection, which is closed
            raise
        except Exception:
            if not response.headers_sent:
                raise
            # An error page would be read as a part of the answer.
            self.log.exception("failed while answering %s %s", call.method, call.uri)
            call.must_close = True
        else:
            call.must_close = response.should_close()
