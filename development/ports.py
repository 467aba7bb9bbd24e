"""Ports on 127.0.0.1: the chosen one or the next free one.

A free port is claimed as long as its server may run. Otherwise, two commands that start at once
could find the same port free, and so could one that starts while another's server restarts.
"""

from __future__ import annotations

import os
import socket

from development import StackError
from development.folder import private_temporary, taken
from shop import environment

SEARCHED = 200  # ports above the default that are tried before giving up

_claims: dict[int, int] = {}
"""Claimed ports, and the locked files that claim them until `release` or this process's end."""


def is_free(port: int) -> bool:
    """Return whether a server can listen on `port`."""
    return _refusal(port) is None


def _refusal(port: int) -> OSError | None:
    """Try to bind `port`. Old connections in TIME_WAIT do not matter."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            return error
    return None


def claim(port: int) -> bool:
    """Claim `port` if it is free and no other command has claimed it; return whether it was."""
    lock = os.open(private_temporary("ports") / str(port), os.O_RDWR | os.O_CREAT, 0o600)
    if taken(lock) and is_free(port):
        _claims[port] = lock
        return True
    os.close(lock)
    return False


def release(*ports: int) -> None:
    """Release the claims on `ports`, whose servers have ended."""
    for port in ports:
        if port in _claims:
            os.close(_claims.pop(port))


def next_free(first: int) -> int:
    """Claim and return the first free port from `first` on.

    Raises:
        StackError: `SEARCHED` ports in a row are in use.
    """
    for port in range(first, first + SEARCHED):
        if claim(port):
            return port
    raise StackError(f"No free port between {first} and {first + SEARCHED - 1}.")


def asked_or_free(variable: str) -> int:
    """Return the port set in `variable`, or the next free one from its default.

    Raises:
        StackError: the chosen port is none, is in use, or this user may not open it.
    """
    port = environment.number(variable)
    if not environment.is_set(variable):
        return next_free(port)
    if not 1 <= port <= 65535:
        raise StackError(f"{variable} must be a port from 1 to 65535, not {port}.")
    if refusal := _refusal(port):
        own = isinstance(refusal, PermissionError)
        reason = "is open to root only" if own else "is in use"
        raise StackError(f"Port {port}, set in {variable}, {reason}. Choose another, or unset it.")
    return port
