"""The worker: a port that closes loses no connection, and another project can use the lane."""

from __future__ import annotations

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

import psutil
import pytest

from serving.worker import is_open_in, queued, refuse_new

ROOT = Path(__file__).resolve().parents[2]
"""The folder that has this package."""


def wait_for(condition: Callable[[], object], seconds: float = 60) -> None:
    """Return when `condition()` is true; fail the test after `seconds`."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"not within {seconds} s: {condition}"
        time.sleep(0.05)


def answer(port: int, path: str = "/") -> bytes:
    """Return the body of the answer; empty if there is none."""
    with suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{port}{path}") as found:
        body: bytes = found.read()
        return body
    return b""


@contextmanager
def served(folder: Path, *options: str) -> Iterator[tuple[int, subprocess.Popen[bytes]]]:
    """Serve `application` of a folder's `project.py`; yield the port and gunicorn's process."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
    command = (sys.executable, "-m", "gunicorn", "project", "-b", f"127.0.0.1:{port}")
    # Nothing of this repository's own environment: the project has its own settings.
    given = {"PATH": os.environ["PATH"], "PYTHONPATH": f"{folder}{os.pathsep}{ROOT}"}
    with subprocess.Popen(
        [*command, "--no-control-socket", *options], cwd=folder, env=given
    ) as server:
        try:
            wait_for(lambda: answer(port))
            yield port, server
        finally:
            server.terminate()


APPLICATION = """
import os

def application(environ, start_response):
    start_response("200 OK", [])
    return [str(os.getpid()).encode()]
"""

on_linux = pytest.mark.skipif(sys.platform != "linux", reason="needs Linux")


@on_linux
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


@on_linux
def test_a_port_that_is_closed_with_a_queue_resets_it() -> None:
    """What the worker prevents."""
    with socket.create_server(("127.0.0.1", 0)) as port:
        early = socket.create_connection(port.getsockname(), timeout=10)
        early.sendall(b"a purchase")
    with early, pytest.raises(ConnectionResetError):
        early.recv(100)


@on_linux
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


@on_linux
@pytest.mark.long
def test_a_reload_leaves_the_port_open_for_the_new_worker(tmp_path: Path) -> None:
    (tmp_path / "project.py").write_text(APPLICATION)
    with served(tmp_path, "-k", "serving.worker.Worker") as (port, server):
        before = worker_of(port)
        server.send_signal(signal.SIGHUP)
        wait_for(lambda: worker_of(port) not in (0, before))
        wait_for(lambda: not psutil.pid_exists(before))
        assert worker_of(port) not in (0, before)


# --- another Django project, with the settings that `serving/README.md` shows -------------------


PROJECT = """
import sys

import psycopg
from django.conf import settings
from django.core.wsgi import get_wsgi_application
from django.http import JsonResponse
from django.urls import path

OURS = ("shop", "inventory", "locking", "lab", "loadtest", "course")

settings.configure(
    ALLOWED_HOSTS=["127.0.0.1"],
    ROOT_URLCONF=__name__,
    MIDDLEWARE=["serving.bodies.whole_bodies"],
)


def show(request):
    return JsonResponse({
        "path": request.path,
        "body": type(request.META["wsgi.input"]).__name__,
        "ours": [name for name in OURS if name in sys.modules],
        "psycopg": [psycopg.waiting.wait.__module__, psycopg.connection.Lock.__module__],
    })


urlpatterns = [path("", show), path("api/seats", show)]
application = get_wsgi_application()
"""

README = (ROOT / "serving" / "README.md").read_text(encoding="utf-8")
[CONFIG] = re.findall(r"```python\n(# gunicorn\.conf\.py\n.*?)```", README, re.DOTALL)


@pytest.mark.parametrize("prefix", ["/api/", ""])
def test_its_calls_take_the_lane_and_its_pages_go_through_gunicorn(
    prefix: str, tmp_path: Path
) -> None:
    """Without a prefix, gunicorn reads all."""
    (tmp_path / "project.py").write_text(PROJECT)
    (tmp_path / "gunicorn.conf.py").write_text(CONFIG.replace('"/api/"', f'"{prefix}"'))
    with served(tmp_path) as (port, _):
        call, page = (json.loads(answer(port, path)) for path in ("/api/seats", "/"))
    assert (call["path"], page["path"]) == ("/api/seats", "/")
    assert call["body"] == ("BytesIO" if prefix else "Body")  # of `serving.calls.Call`
    assert page["body"] == "Body"  # of gunicorn's parser
    assert call["ours"] == []
    # Its locks block a greenlet only, since it was loaded after gevent's patches.
    assert call["psycopg"] == ["serving.psycopg_wait", "gevent.thread"]
