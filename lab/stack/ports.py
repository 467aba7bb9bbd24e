"""Ports on 127.0.0.1: the one asked for, or the next free one.

A free port is claimed until its server listens. Two commands that start at once would otherwise
both find the same port free, and one of their servers would never come up.
"""

from __future__ import annotations

import atexit
import os
import socket
import tempfile
from pathlib import Path
from typing import IO

from lab import environment
from lab.stack.errors import PortTaken, StackError
from lab.stack.folder import taken

SEARCHED = 200  # ports above the default that are tried before giving up

_claims: dict[int, IO[str]] = {}


def is_free(port: int, address: str = "127.0.0.1") -> bool:
    """Can a server listen on `port`? A connection of the past in TIME_WAIT does not matter."""
    return _refusal(port, address) is None


def _refusal(port: int, address: str = "127.0.0.1") -> OSError | None:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((address, port))
        except OSError as error:
            return error
    return None


def claim(port: int) -> bool:
    """Take `port` if it is free and no other command is about to use it; say whether it was."""
    lock = (_claims_folder() / str(port)).open("a")
    if taken(lock) and is_free(port):
        _claims[port] = lock  # held until `release`, or until this process ends
        return True
    lock.close()
    return False


def release(*ports: int) -> None:
    """Give up the claims on `ports`, whose servers listen now or never will."""
    for port in ports:
        if port in _claims:
            _claims.pop(port).close()


@atexit.register
def _release_all() -> None:
    release(*list(_claims))


def next_free(first: int) -> int:
    """Claim and return the first free port from `first` on.

    Raises:
        StackError: `SEARCHED` ports in a row are taken.
    """
    for port in range(first, first + SEARCHED):
        if claim(port):
            return port
    raise StackError(f"No free port between {first} and {first + SEARCHED - 1}.")


def asked_or_free(variable: str) -> int:
    """Return the port that the user asked for in `variable`, else the next free from its default.

    Raises:
        PortTaken: the user asked for a port that is in use.
        StackError: for one that there is not, or that this user may not open.
    """
    port = environment.number(variable)
    if not environment.is_set(variable):
        return next_free(port)
    if not 1 <= port <= 65535:
        raise StackError(f"{variable} must be a port from 1 to 65535, not {port}.")
    refusal = _refusal(port)
    if isinstance(refusal, PermissionError):
        raise StackError(
            f"This user may not open port {port}, asked for by {variable}. Choose one above 1023."
        )
    if refusal:
        raise PortTaken(variable, port)
    return port


def _claims_folder() -> Path:
    folder = Path(tempfile.gettempdir()) / f"shop-{os.getuid()}-ports"
    folder.mkdir(mode=0o700, exist_ok=True)
    if folder.is_symlink() or folder.stat().st_uid != os.getuid():
        raise StackError(f"{folder} belongs to somebody else.")
    return folder
