"""Which Redis server this process talks to, and since when.

A replica that is promoted may lack the last writes of the one it replaces. What is read from a
server that this process has only just met can so be older than what was acknowledged before.
"""

from __future__ import annotations

import math
import re
import time
from typing import Any

from redis.exceptions import ResponseError

RUN_ID = re.compile(rb"run_id:(\w+)")
"""A server's own name, drawn anew each time that it starts."""


class Server:
    """Gets to know the server behind each new connection; one of these a client."""

    def __init__(self) -> None:
        self._run_id = b""
        self._since = -math.inf

    @property
    def known_for(self) -> float:
        """Seconds since another server was met than before; endless if there was but one."""
        return time.monotonic() - self._since

    def meet(self, connection: Any) -> None:
        """Set a new connection up; redis-py calls it (``redis_connect_func``) in place of its own.

        Costs one round trip for each connection, not one for each command.
        """
        connection.on_connect()
        connection.send_command("INFO", "server", check_health=False)
        try:
            told = connection.read_response()
        except ResponseError:
            told = b""  # a server that does not tell may be another one each time
        found = RUN_ID.search(told if isinstance(told, bytes) else str(told).encode())
        run_id = found[1] if found else b""
        if not run_id or (self._run_id and run_id != self._run_id):
            self._since = time.monotonic()
        self._run_id = run_id
