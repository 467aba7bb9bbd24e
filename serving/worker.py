"""gunicorn's gevent worker for an API: it reads calls in its lane, and loses none when it stops.

**A new server refuses until it can answer.** gunicorn's master listens as soon as it starts, and
what a proxy sends before the workers have loaded the application waits for seconds. With
gunicorn's setting `preload_app` the master loads the application before it listens, so that the
kernel refuses connections until then and the proxy takes the next replica. The application must
not be loaded before gevent has patched the standard library, so the class patches the master too.

**A server that stops takes what has reached it.** The kernel completes connections before a process
accepts them. When the last process that listens closes the port, the kernel resets those that
wait, and a proxy must not repeat a POST that it has sent on one. So a worker first accepts all of
them, then closes. What the kernel completes in the microseconds between these two statements is
still lost.

gunicorn has no setting for what reads its requests, so the worker replaces
`gunicorn.http.get_parser` in its own process.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from itertools import chain
from types import SimpleNamespace
from typing import Any

import gevent
from gevent import monkey, socket
from gevent.server import StreamServer
from gunicorn import http
from gunicorn.http import wsgi
from gunicorn.workers.ggevent import GeventWorker

from serving.lane import Call, Parser, Response

KEYS = {"CONTENT-TYPE": "CONTENT_TYPE", "CONTENT-LENGTH": "CONTENT_LENGTH"}

SETTINGS = (
    "limit_request_line",
    "limit_request_fields",
    "limit_request_field_size",
    "proxy_protocol",
    "accesslog",
)
"""gunicorn's settings that the lane does not follow. If one is changed, gunicorn reads
the calls too."""


def allows_lane(cfg: Any) -> bool:
    """Return whether calls may take the lane under these settings of gunicorn."""
    settings = [cfg.settings[name] for name in SETTINGS]
    usual = all(setting.get() == setting.default for setting in settings)
    return usual and not cfg.is_ssl and not os.environ.get("SCRIPT_NAME")


_gunicorns_parser = http.get_parser
_unlimited = nullcontext()


class Port(StreamServer):
    """A port that accepts connections for one of several workers."""

    max_accept = 1
    """Connections per round of the event loop, so that the other workers get their part."""

    def close(self) -> None:
        """Accept what the kernel has queued, and close."""
        try:
            while not (self.closed or self.full()) and (accepted := self.do_read()):
                self.do_handle(*accepted)
        finally:
            super().close()


class Worker(GeventWorker):
    """gunicorn's gevent worker, with a lane for an API's calls; use it with `preload_app`.

    A server hook such as `post_fork` sets the first two attributes.

    Attributes:
        lane: prefix of the paths that take the lane, such as `/api/`; empty: none does.
        read_timeout: seconds for a request's head to arrive, and again for its body.
        sockets: the ports.
    """

    lane = ""
    read_timeout = 10.0
    sockets: list[Any]

    @classmethod
    def setup(cls) -> None:
        """Patch the standard library in the master: gunicorn calls this before it loads anything.

        Not the parts about processes, by which gunicorn's master watches its workers.
        """
        monkey.patch_all(os=False, signal=False)

    def patch(self) -> None:
        """Make the ports gevent's own; `setup` has patched everything else."""
        self.sockets = [
            socket.socket(port.FAMILY, socket.SOCK_STREAM, fileno=port.sock.detach())
            for port in self.sockets
        ]

    def server_class(self, port: Any, *, spawn: Any, **more: Any) -> Port:
        """Make the server of a port: gunicorn calls this where its own worker has a class."""
        tls = {name: more[name] for name in ("ssl_context",) if name in more}
        # A connection asks for its port's address when it begins; the port may be closed by then.
        address = port.getsockname()
        open_or_closed = SimpleNamespace(getsockname=lambda: address)
        return Port(port, partial(self.handle, open_or_closed), spawn=spawn, **tls)

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
        return _unlimited if self.cfg.protocol == "http" else super().timeout_ctx()

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
