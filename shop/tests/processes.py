"""Helpers for tests that start real processes, and talk to the shop's web server."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from django.db import connection

from shop import environment


def wait_for(condition: Callable[[], object], seconds: float = 90) -> None:
    """Return when `condition()` is true; fail the test after `seconds`."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"not within {seconds} s: {condition}"
        time.sleep(0.05)


def run(
    *words: object,
    cwd: Path = environment.PROJECT,
    env: Mapping[str, str] | None = None,
    given: str | None = None,
    seconds: float = 120,
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end, by default in the project's folder.

    Args:
        words: the program and its arguments.
        cwd: its working folder.
        env: all of its variables; by default those of this process.
        given: its input.
        seconds: after which it is killed and the test fails.
    """
    return subprocess.run(
        [str(word) for word in words],
        cwd=cwd,
        env=env,
        input=given,
        capture_output=True,
        text=True,
        check=False,
        timeout=seconds,
    )


def succeed(*words: object, **how: Any) -> str:
    """Run a command as `run` does; return what it printed, or fail the test if it failed."""
    done = run(*words, **how)
    assert done.returncode == 0, f"{words}\n{done.stdout[-6000:]}\n{done.stderr[-6000:]}"
    return done.stdout


def run_python(
    code: str, *arguments: str, given: str = "", **variables: str
) -> subprocess.CompletedProcess[str]:
    """Run code in a process that has only these variables, and is given this text."""
    env = {"PATH": os.environ["PATH"], **variables}
    return run(sys.executable, "-c", code, *arguments, given=given, env=env, seconds=60)


HOST = "127.0.0.1"
SECONDS = 30
"""Limit for any single answer. No test expects to reach it."""


def on_test_database(**variables: str) -> dict[str, str]:
    """Return variables of a process that uses the test's database."""
    server, _, _ = os.environ["DATABASE_URL"].rpartition("/")
    return {"DATABASE_URL": f"{server}/{connection.settings_dict['NAME']}", **variables}


def request(method: str, path: str, *headers: str, body: bytes = b"", length: int = -1) -> bytes:
    """Write a request.

    Args:
        length: what its Content-Length says; by default that of the body.
    """
    size = len(body) if length < 0 else length
    lines = [f"{method} {path} HTTP/1.1", f"Host: {HOST}", *headers]
    if size or method == "POST":
        lines.append(f"Content-Length: {size}")
    return "\r\n".join([*lines, "", ""]).encode() + body


def connect(port: int) -> socket.socket:
    return socket.create_connection((HOST, port), SECONDS)


def read_all(client: socket.socket) -> bytes:
    """Read until the server closes the connection."""
    found = b""
    with suppress(ConnectionResetError):
        while part := client.recv(65536):
            found += part
    return found


def exchange(port: int, *packets: bytes) -> bytes:
    """Send packets and close the sending side; return everything that is answered."""
    with connect(port) as client:
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for packet in packets:
            client.sendall(packet)
        with suppress(OSError):
            client.shutdown(socket.SHUT_WR)
        return read_all(client)
