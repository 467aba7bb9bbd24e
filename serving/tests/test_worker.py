"""gunicorn's worker in projects that are not ours: its lane, and a port that is about to close.

A port that closes serves what is queued and lets nothing new in.
"""

from __future__ import annotations

import errno
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from serving.worker import is_open_in, queued, refuse_new

ROOT = Path(__file__).resolve().parents[2]
"""The folder that has this package."""

README = (ROOT / "serving" / "README.md").read_text(encoding="utf-8")
[CONFIG] = re.findall(r"```python\n(# gunicorn\.conf\.py\n.*?)```", README, re.DOTALL)

PROJECT = """
import os, socket, sys

import psycopg
from django.conf import settings
from django.core.wsgi import get_wsgi_application
from django.http import JsonResponse
from django.urls import path

OURS = ("shop", "inventory", "locking", "own", "development")

settings.configure(
    ALLOWED_HOSTS=["127.0.0.1"],
    ROOT_URLCONF=__name__,
    MIDDLEWARE=["serving.bodies.whole_bodies"],
)

with socket.socket() as client:
    early = client.connect_ex(("127.0.0.1", int(os.environ["PORT"])))


def show(request):
    return JsonResponse({
        "path": request.path,
        "body": type(request.META["wsgi.input"]).__name__,
        "ours": [name for name in OURS if name in sys.modules],
        "psycopg": [psycopg.waiting.wait.__module__, psycopg.connection.Lock.__module__],
        "worker": os.getpid(),
        "early": early,
    })


urlpatterns = [path("", show), path("api/seats", show)]
application = get_wsgi_application()
"""

needs_linux = pytest.mark.skipif(sys.platform != "linux", reason="needs Linux")


def wait_for(condition: Callable[[], object], seconds: float = 60) -> None:
    """Return when `condition()` is true; fail the test after `seconds`."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"not within {seconds} s: {condition}"
        time.sleep(0.05)


def show(port: int, path: str = "/") -> dict[str, Any]:
    """Return what the project's view saw of a request; empty if there is no answer."""
    with suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{port}{path}") as response:
        seen: dict[str, Any] = json.load(response)
        assert (seen["path"], seen["ours"]) == (path, [])
        return seen
    return {}


@contextmanager
def served(folder: Path, config: str = CONFIG) -> Iterator[tuple[int, subprocess.Popen[bytes]]]:
    """Serve the project with this configuration; yield the port and gunicorn's process."""
    (folder / "project.py").write_text(PROJECT)
    (folder / "gunicorn.conf.py").write_text(config)
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "gunicorn", "project", "-b", f"127.0.0.1:{port}"]
    # Nothing of this repository's own environment: the project has its own settings.
    given = {"PATH": os.environ["PATH"], "PYTHONPATH": f"{folder}{os.pathsep}{ROOT}"}
    given["PORT"] = str(port)
    with subprocess.Popen([*command, "--no-control-socket"], cwd=folder, env=given) as server:
        try:
            wait_for(lambda: show(port))
            yield port, server
        finally:
            server.terminate()


# A body is `Body` from gunicorn, `BytesIO` from the lane, which needs a prefix.
@pytest.mark.parametrize(("prefix", "body"), [("/api/", "BytesIO"), ("", "Body")])
def test_its_calls_take_the_lane_and_its_pages_go_through_gunicorn(
    prefix: str, body: str, tmp_path: Path
) -> None:
    with served(tmp_path, CONFIG.replace("/api/", prefix)) as (port, _):
        assert show(port, "/api/seats")["body"] == body
        assert show(port)["body"] == "Body"
        # Its locks block a greenlet only, since it was loaded after gevent's patches.
        assert show(port)["psycopg"] == ["serving.psycopg_wait", "gevent.thread"]


def test_a_port_refuses_until_the_application_is_loaded(tmp_path: Path) -> None:
    with served(tmp_path) as (port, _):
        assert show(port)["early"] == errno.ECONNREFUSED


@needs_linux
@pytest.mark.long
def test_a_reload_leaves_the_port_open_for_the_new_worker(tmp_path: Path) -> None:
    with served(tmp_path) as (port, server):
        before = show(port)["worker"]
        server.send_signal(signal.SIGHUP)
        wait_for(lambda: show(port).get("worker", before) != before)
        wait_for(lambda: not psutil.pid_exists(before))
        assert show(port)["worker"] != before


@needs_linux
def test_a_draining_port_keeps_its_queue_and_lets_nothing_new_in() -> None:
    with socket.create_server(("127.0.0.1", 0)) as port:
        early = socket.create_connection(port.getsockname(), timeout=10)
        assert queued(port) == 1
        refuse_new(port)
        with pytest.raises(TimeoutError):
            socket.create_connection(port.getsockname(), timeout=0.2)
        early.sendall(b"a purchase")
        accepted, _ = port.accept()
        assert accepted.recv(100) == b"a purchase"
        assert queued(port) == 0
    early.close()
    accepted.close()


@needs_linux
def test_a_port_that_is_closed_with_a_queue_resets_it() -> None:
    """What the worker prevents."""
    with socket.create_server(("127.0.0.1", 0)) as port:
        early = socket.create_connection(port.getsockname(), timeout=10)
        early.sendall(b"a purchase")
    with early, pytest.raises(ConnectionResetError):
        early.recv(100)


@needs_linux
def test_it_is_seen_whether_the_master_has_closed_the_port() -> None:
    with socket.create_server(("127.0.0.1", 0)) as port, socket.create_server(("", 0)) as other:
        waits = [sys.executable, "-c", "import sys; sys.stdin.read()"]
        with subprocess.Popen(waits, stdin=subprocess.PIPE, pass_fds=[port.fileno()]) as master:
            assert is_open_in(master.pid, port)
            assert not is_open_in(master.pid, other)
            master.communicate()
        assert not is_open_in(master.pid, port)
        assert is_open_in(os.getpid(), port)
