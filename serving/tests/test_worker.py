"""gunicorn's worker in a project that is not ours: its lane, and how its port opens and closes."""

from __future__ import annotations

import errno
import json
import os
import re
import signal
import socket
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import gevent.socket
import psutil
import pytest
from gevent.event import Event
from gevent.pool import Pool
from gevent.server import StreamServer

from development.servers import Command, free_port
from serving.worker import Port, Worker

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
def served(folder: Path, config: str = CONFIG) -> Iterator[tuple[int, Command]]:
    """Serve the project with this configuration; yield the port and gunicorn."""
    (folder / "project.py").write_text(PROJECT)
    (folder / "gunicorn.conf.py").write_text(config)
    port = free_port()
    words = [sys.executable, "-m", "gunicorn", "project", "-b", f"127.0.0.1:{port}"]
    gunicorn = Command("gunicorn", [*words, "--no-control-socket"], {"PORT": str(port)}, port=port)
    # Nothing of this repository's own environment: the project has its own settings.
    python = {"PYTHONPATH": f"{folder}{os.pathsep}{ROOT}"}
    gunicorn.folder, gunicorn.inherited = folder, {"PATH": os.environ["PATH"], **python}
    with gunicorn:
        wait_for(lambda: show(port))
        yield port, gunicorn


# A body is `Body` from gunicorn, `BytesIO` from the lane, which needs a prefix.
@pytest.mark.parametrize(("prefix", "body"), [("/api/", "BytesIO"), ("", "Body")])
def test_worker_sends_calls_to_the_lane_and_pages_to_gunicorn(
    prefix: str, body: str, tmp_path: Path
) -> None:
    with served(tmp_path, CONFIG.replace("/api/", prefix)) as (port, _):
        assert show(port, "/api/seats")["body"] == body
        assert show(port)["body"] == "Body"
        # Its locks block a greenlet only, since it was loaded after gevent's patches.
        assert show(port)["psycopg"] == ["psycopg.waiting", "gevent.thread"]


def test_worker_port_refuses_until_the_application_is_loaded(tmp_path: Path) -> None:
    with served(tmp_path) as (port, _):
        assert show(port)["early"] == errno.ECONNREFUSED


@pytest.mark.long
def test_worker_reload_leaves_the_port_open(tmp_path: Path) -> None:
    with served(tmp_path) as (port, server):
        before = show(port)["worker"]
        assert server.process is not None
        server.process.send_signal(signal.SIGHUP)
        wait_for(lambda: show(port).get("worker", before) != before)
        wait_for(lambda: not psutil.pid_exists(before))
        assert show(port)["worker"] != before


@pytest.fixture
def listening() -> Iterator[Any]:
    with gevent.socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(16)
        yield listener


@contextmanager
def queued(listening: Any) -> Iterator[socket.socket]:
    """A client's connection that the kernel has made and no process has accepted."""
    with socket.create_connection(listening.getsockname(), timeout=10) as client:
        client.sendall(b"a purchase")
        yield client


def test_port_that_closes_serves_its_queue(listening: Any) -> None:
    address, pool = listening.getsockname(), Pool(9)

    def handle(listener: Any, client: Any, _: object) -> None:
        assert listener.getsockname() == address  # as gunicorn asks
        client.sendall(client.recv(100).upper())
        client.close()

    worker = Worker.__new__(Worker)
    worker.handle = handle
    port = worker.server_class(listening, spawn=pool)
    port.start()
    with queued(listening) as first, queued(listening) as second:
        port.close()
        assert pool.join(timeout=10)
        assert [first.recv(100), second.recv(100)] == [b"A PURCHASE"] * 2
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(address, timeout=10)


def test_port_that_is_full_closes_without_waiting(listening: Any) -> None:
    over, pool = Event(), Pool(1)

    def handle(client: Any, _: object) -> None:
        over.wait()
        client.close()

    port = Port(listening, handle, spawn=pool)
    port.start()
    with queued(listening), queued(listening) as too_many:
        port.close()
        with pytest.raises(ConnectionResetError):
            too_many.recv(100)
    over.set()
    assert pool.join(timeout=10)


def test_port_of_gevent_resets_its_queue(listening: Any) -> None:
    """What the worker prevents."""
    port = StreamServer(listening, lambda *_: None)
    port.start()
    with queued(listening) as client:
        port.close()
        with pytest.raises(ConnectionResetError):
            client.recv(100)
