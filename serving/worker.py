"""gunicorn's gevent worker, with a lane for an API; it opens and closes its port without a loss.

gunicorn's master listens before a worker has loaded the application, so that what a proxy sends
meanwhile waits for seconds. So here the master binds the port only, and a worker that can serve
listens. Until then the kernel refuses connections, and the proxy takes the next replica.

The kernel completes connections before a process accepts them. If the last process that listens
closes the port, the kernel resets those in its queue, and a proxy that has sent a POST on one must
not repeat it elsewhere. So a worker that is to stop first lets the kernel drop new
connections, then accepts what is queued, and only then closes. The proxy's kernel repeats a
dropped connection after a second and is refused; the proxy, which has sent nothing, takes the next
replica.

All workers share the port. So one that stops while the others go on, as at a reload (SIGHUP),
leaves it alone.
"""

from __future__ import annotations

import ctypes
import os
import socket
import struct
import sys
import time
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import gevent
from gunicorn.sock import BaseSocket

from serving.lane import LaneWorker

HANDSHAKE = 0.2
"""Seconds for the last packet of connections that were half made; a round trip to the proxy."""

MAX_DRAIN = 3.0
"""Seconds for the queue to become empty; part of gunicorn's graceful time-out."""

SO_ATTACH_FILTER = 26
"""Linux; the constant is not in Python's `socket`."""

# Classic BPF over the TCP header: drop a packet with the flag SYN, pass all others.
NO_SYN = b"".join(
    struct.pack("HBBI", *instruction)
    for instruction in (
        (0x30, 0, 0, 13),  # load the byte with the flags
        (0x45, 0, 1, 0x02),  # SYN?
        (0x06, 0, 0, 0),  # drop
        (0x06, 0, 0, 0xFFFFFFFF),  # pass
    )
)


def refuse_new(listener: socket.socket) -> None:
    """Let the kernel ignore new connections to a port, and complete those it has begun.

    Raises:
        OSError: the kernel does not know filters.
    """
    code = ctypes.create_string_buffer(NO_SYN, len(NO_SYN))
    program = struct.pack("HP", len(NO_SYN) // 8, ctypes.addressof(code))
    listener.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER, program)


def queued(listener: socket.socket) -> int:
    """Return how many connections the kernel has made that no process has accepted."""
    information = listener.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 28)
    [length] = struct.unpack_from("I", information, 24)  # tcpi_unacked, of a listening socket
    return int(length)


def is_open_in(pid: int, listener: socket.socket) -> bool:
    """Whether another process of this user has a socket open; False if it has ended."""
    wanted = f"socket:[{os.fstat(listener.fileno()).st_ino}]"
    try:
        descriptors = list(Path(f"/proc/{pid}/fd").iterdir())
    except OSError:
        return False
    for each in descriptors:
        with suppress(OSError):  # closed meanwhile
            if str(each.readlink()) == wanted:
                return True
    return False


class Worker(LaneWorker):
    """gunicorn's gevent worker, which on SIGTERM empties its queue of connections first.

    Attributes:
        from_systemd: whether systemd made the port and keeps it, so that the next start finds it
            again.
    """

    from_systemd = False

    @classmethod
    def setup(cls) -> None:
        """Let the master bind its ports without listening: gunicorn calls this before it does."""
        BaseSocket._is_listening = staticmethod(lambda _: True)

    def load_wsgi(self) -> None:
        """Load the application, then listen unless another worker or systemd does.

        Raises:
            OSError: another server has taken the port. As the worker has not booted, gunicorn ends.
        """
        super().load_wsgi()
        for port in self.sockets:
            if not port.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
                port.listen(self.cfg.backlog)

    def patch(self) -> None:
        """Patch the standard library; then let psycopg, if there is one, wait through gevent."""
        super().patch()
        if find_spec("psycopg"):
            # Not above: psycopg must not be loaded before what it is built on has been patched.
            from serving import psycopg_wait

            psycopg_wait.install()

    def handle_exit(self, sig: int, frame: Any) -> None:
        """Stop, from a signal handler, which must not wait."""
        gevent.spawn(self._drain_and_stop)

    def _drain_and_stop(self) -> None:
        try:
            # Kernels without filters, such as sandboxes, close the port as gunicorn does.
            with suppress(OSError):
                self._drain()
        finally:
            self.alive = False

    def _drain(self) -> None:
        if sys.platform != "linux":
            return
        # The master closes the port before it stops the workers, unless all got the signal at once.
        gevent.sleep(HANDSHAKE)
        ports = [each for each in self.sockets if each.family != socket.AF_UNIX]
        if self.from_systemd or any(is_open_in(self.ppid, port) for port in ports):
            return
        for port in ports:
            refuse_new(port)
        ended = time.monotonic() + MAX_DRAIN
        gevent.sleep(HANDSHAKE)
        while any(queued(port) for port in ports) and time.monotonic() < ended:
            gevent.sleep(0.02)
