"""Ports on 127.0.0.1: the chosen one or the next free one.

A free port is claimed as long as its server may run. Otherwise, two commands that start at once
could find the same port free, and so could one that starts while another's server restarts.
"""

from __future__ import annotations

import atexit
import os
import socket
import tempfile
from pathlib import Path
from typing import IO

from development import environment
from development.errors import PortTaken, StackError
from development.folder import taken

SEARCHED = 200  # ports above the default that are tried before giving up

_claims: dict[int, IO[str]] = {}


def is_free(port: int) -> bool:
    """Whether a server can listen on `port`. Old connections in TIME_WAIT do not matter."""
    return _refusal(port) is None


def _refusal(port: int) -> OSError | None:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            return error
    return None


def claim(port: int) -> bool:
    """Claim `port` if it is free and no other command has claimed it; return whether it was."""
    lock = (_claims_folder() / str(port)).open("a")
    if taken(lock) and is_free(port):
        _claims[port] = lock  # held until `release`, or until this process ends
        return True
    lock.close()
    return False


def release(*ports: int) -> None:
    """Release the claims on `ports`, whose servers have ended."""
    for port in ports:
        if port in _claims:
            _claims.pop(port).close()


@atexit.register
def _release_all() -> None:
    release(*list(_claims))


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
        PortTaken: the chosen port is in use.
        StackError: it is no port, or this user may not open it.
    """
    port = environment.number(variable)
    if not environment.is_set(variable):
        return next_free(port)
    if not 1 <= port <= 65535:
        raise StackError(f"{variable} must be a port from 1 to 65535, not {port}.")
    refusal = _refusal(port)
    if isinstance(refusal, PermissionError):
        raise StackError(
            f"This user may not open port {port}, set in {variable}. Choose one above 1023."
        )
    if refusal:
        raise PortTaken(variable, port)
    return port


def _claims_folder() -> Path:
    folder = Path(tempfile.gettempdir()) / f"shop-{os.getuid()}-ports"
    folder.mkdir(mode=0o700, exist_ok=True)
    if folder.is_symlink() or folder.stat().st_uid != os.getuid():
        raise StackError(f"{folder} belongs to another user.")
    return folder
