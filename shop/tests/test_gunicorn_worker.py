"""A port that is about to close: what is queued is served, what is new is not let in."""

import socket
import sys

import pytest

from shop.gunicorn_worker import queued, refuse_new

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="filters of the Linux kernel")


def test_a_draining_port_keeps_its_queue_and_lets_nothing_new_in() -> None:
    with socket.create_server(("127.0.0.1", 0)) as port:
        early = socket.create_connection(port.getsockname(), timeout=10)
        assert queued(port) == 1
        refuse_new(port)
        with pytest.raises(TimeoutError):
            socket.create_connection(port.getsockname(), timeout=0.2)
        early.sendall(b"a purchase")
        served, _ = port.accept()
        assert served.recv(100) == b"a purchase"
        assert queued(port) == 0
    early.close()
    served.close()


def test_a_port_that_is_closed_with_a_queue_resets_it() -> None:
    """What the worker prevents."""
    with socket.create_server(("127.0.0.1", 0)) as port:
        early = socket.create_connection(port.getsockname(), timeout=10)
        early.sendall(b"a purchase")
    with early, pytest.raises(ConnectionResetError):
        early.recv(100)
