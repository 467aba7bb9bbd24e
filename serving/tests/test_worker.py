"""A port that is about to close: what is queued is served, what is new is not let in."""

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from serving.tests.projects import answer, served, wait_for
from serving.worker import is_open_in, queued, refuse_new

APPLICATION = """
import os

def application(environ, start_response):
    start_response("200 OK", [])
    return [str(os.getpid()).encode()]
"""

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs Linux")


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


def test_it_is_seen_whether_the_master_has_closed_the_port() -> None:
    with socket.create_server(("127.0.0.1", 0)) as port, socket.create_server(("", 0)) as other:
        waits = [sys.executable, "-c", "import sys; sys.stdin.read()"]
        with subprocess.Popen(waits, stdin=subprocess.PIPE, pass_fds=[port.fileno()]) as master:
            assert is_open_in(master.pid, port)
            assert not is_open_in(master.pid, other)
            master.communicate()
        assert not is_open_in(master.pid, port)
        assert is_open_in(os.getpid(), port)


def worker_of(port: int) -> int:
    """The worker that answers a request; 0 if none does."""
    return int(answer(port) or 0)


@pytest.mark.long
def test_a_reload_leaves_the_port_open_for_the_new_worker(tmp_path: Path) -> None:
    (tmp_path / "project.py").write_text(APPLICATION)
    with served(tmp_path, "-k", "serving.worker.Worker") as (port, server):
        before = worker_of(port)
        server.send_signal(signal.SIGHUP)
        wait_for(lambda: worker_of(port) not in (0, before))
        wait_for(lambda: not psutil.pid_exists(before))
        assert worker_of(port) not in (0, before)
