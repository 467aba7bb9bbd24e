"""Projects that are not ours, made in a folder and served by gunicorn."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
"""The folder that has this package."""


def free_port() -> int:
    """Return a port that no process listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


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
    port = free_port()
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
