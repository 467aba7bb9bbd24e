"""The client of a fault proxy's control port, which is a process of its own."""

from __future__ import annotations

import json
import socket
from typing import Any

from loadtest.faults.fault import FaultFailed


class Control:
    """A proxy's control port; each call uses a new connection.

    Args:
        port: on this machine.
    """

    def __init__(self, port: int) -> None:
        self._port = port

    def tell(self, **settings: Any) -> dict[str, int]:
        """Change the proxy's behaviour (see `proxy.Proxy.change`); return its counts.

        Raises:
            FaultFailed: it does not answer.
        """
        try:
            with socket.create_connection(("127.0.0.1", self._port), timeout=5) as connection:
                connection.sendall(json.dumps(settings).encode() + b"\n")
                with connection.makefile("rb") as answer:
                    counts: dict[str, int] = json.loads(answer.readline())
        except (OSError, ValueError) as error:
            raise FaultFailed(f"the proxy does not answer: {error}") from error
        return counts

    def counts(self) -> dict[str, int]:
        """Return its counts so far."""
        return self.tell()
