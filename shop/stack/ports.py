"""Ports on 127.0.0.1: the one asked for, or the next free one."""

from __future__ import annotations

import socket

from shop import environment
from shop.stack.errors import PortTaken, StackError

SEARCHED = 200  # ports above the default that are tried before giving up


def is_free(port: int, address: str = "127.0.0.1") -> bool:
    """Can a server listen on `port`? A connection of the past in TIME_WAIT does not matter."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((address, port))
        except OSError:
            return False
    return True


def next_free(first: int) -> int:
    """Return the first free port from `first` on.

    Raises:
        StackError: `SEARCHED` ports in a row are taken.
    """
    for port in range(first, first + SEARCHED):
        if is_free(port):
            return port
    raise StackError(f"No free port between {first} and {first + SEARCHED - 1}.")


def asked_or_free(variable: str) -> int:
    """Return the port that the user asked for in `variable`, else the next free from its default.

    Raises:
        PortTaken: the user asked for a port that is in use.
    """
    port = environment.number(variable)
    if not environment.is_set(variable):
        return next_free(port)
    if not is_free(port):
        raise PortTaken(variable, port)
    return port
