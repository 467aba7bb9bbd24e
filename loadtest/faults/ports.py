"""A free port on this machine."""

from __future__ import annotations

import socket


def free_port() -> int:
    """Return a port on which no server listens now."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])
