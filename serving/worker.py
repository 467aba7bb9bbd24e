"""gunicorn's gevent worker for an API: it reads calls in its lane, and loses none when it stops.

**A new server refuses until it can answer.** gunicorn's master listens as soon as it starts, and
what a proxy sends before the workers have loaded the application waits for seconds. With
gunicorn's setting `preload_app` the master loads the application before it listens, so that the
kernel refuses connections until then and the proxy takes the next replica. The application must
not be loaded before gevent has patched the standard library, so the class patches the master too.

**A server that stops takes what has reached it.** The kernel completes connections before a process
accepts them. When the last process that listens closes the port, the kernel resets those that
wait, and a proxy must not repeat a POST that it has sent on one. So a worker first accepts all of
them, then closes. Connections that the kernel completes between these two statements are lost;
docs/upgrading.md says how many that were.
"""

from __future__ import annotations

from functools import partial
from types import SimpleNamespace
from typing import Any

from gevent import monkey, socket
from gevent.server import StreamServer

from serving.lane import LaneWorker


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


class Worker(LaneWorker):
    """gunicorn's gevent worker, with a lane for an API's calls; use it with `preload_app`."""

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
