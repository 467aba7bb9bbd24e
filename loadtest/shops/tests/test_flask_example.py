"""The example of docs/your-shop.md: its planted race is found, and its cure holds."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest

from loadtest.rush.__main__ import main
from loadtest.shops.flask_example import shop

ADAPTER = "loadtest.shops.flask_example.adapter:Adapter"


@contextmanager
def served(**variables: str) -> Iterator[str]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = subprocess.Popen(
        [sys.executable, str(shop.__file__), str(port)],
        env={**os.environ, **variables},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        give_up = time.monotonic() + 60
        while time.monotonic() < give_up and server.poll() is None:
            with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
                break
            time.sleep(0.05)
        yield f"http://127.0.0.1:{port}"
    finally:
        server.kill()
        server.wait()


@pytest.mark.parametrize(
    ("variables", "code", "word"),
    [({}, 1, "BROKEN in 2 of 2 rounds"), ({"CURED": "1"}, 0, "HOLDS")],
)
def test_the_planted_race_is_red_and_its_cure_green(
    variables: dict[str, str], code: int, word: str, capsys: pytest.CaptureFixture[str]
):
    with served(**variables) as host:
        size = ["--stock", "5", "--buyers", "40", "--rounds", "2"]
        assert main(["--shop", ADAPTER, "--host", host, *size]) == code
    assert word in capsys.readouterr().out
