"""A TCP proxy that loses or holds up what it is told to, for tests of a bad network."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Callable
from enum import Enum
from typing import Self


class Fault(Enum):
    """What becomes of the next answer of the server."""

    RESET = "the connection breaks after the server has carried the command out"
    SILENCE = "the answer never comes"


class Way(Enum):
    """On which way something is held up."""

    REQUEST = "to the server"
    ANSWER = "back"


class Proxy:
    """Forwards to 127.0.0.1:`port`; `lose` and `hold_up` spoil the next command that they name."""

    def __init__(self, port: int) -> None:
        self._target = ("127.0.0.1", port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self.url = f"redis://127.0.0.1:{self.port}/0"
        self._plan: list[tuple[bytes, Fault]] = []
        self._jams: list[tuple[bytes, Way, Callable[[], object]]] = []
        self._sockets: list[socket.socket] = []
        self.lost = 0
        threading.Thread(target=self._accept, daemon=True).start()

    def lose(self, command: str, fault: Fault = Fault.RESET) -> None:
        """Spoil the answer to the next request that contains `command`."""
        self._plan.append((command.encode(), fault))

    def hold_up(self, command: str, way: Way, until: Callable[[], object]) -> None:
        """Let the next request that contains `command`, or its answer, wait for a condition."""
        self._jams.append((command.encode(), way, until))

    def _accept(self) -> None:
        with contextlib.suppress(OSError):  # the listener was closed: the test is over
            while True:
                client, _ = self._listener.accept()
                server = socket.create_connection(self._target)
                self._sockets += [client, server]
                threading.Thread(target=self._serve, args=(client, server), daemon=True).start()

    def _serve(self, client: socket.socket, server: socket.socket) -> None:
        # One request, one answer: all that a lock's connection ever does.
        with contextlib.suppress(OSError), client, server:
            while request := client.recv(1 << 16):
                fault = self._fault_for(request)
                self._wait(request, Way.REQUEST)
                server.sendall(request)
                answer = server.recv(1 << 16)
                self._wait(request, Way.ANSWER)
                if fault is not None:
                    self.lost += 1
                if fault is Fault.RESET or not answer:
                    return
                if fault is None:
                    client.sendall(answer)

    def _wait(self, request: bytes, way: Way) -> None:
        for jam in self._jams:
            if jam[0] in request and jam[1] is way:
                self._jams.remove(jam)
                while not jam[2]():
                    time.sleep(0.005)
                return

    def _fault_for(self, request: bytes) -> Fault | None:
        for plan in self._plan:
            if plan[0] in request:
                self._plan.remove(plan)
                return plan[1]
        return None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        self._listener.close()
        for one in self._sockets:
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
