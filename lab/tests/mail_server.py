"""A mail server for tests."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from development.ports import next_free, release
from lab import environment
from lab.stack.stack import listens
from shop.tests.processes import wait_for


@contextmanager
def mail_server(folder: Path) -> Iterator[int]:
    """Run the lab's mail server over a folder; its port."""
    port = next_free(environment.MAIL_PORT)
    command = ["-m", "lab.mail_server", "--port", str(port), "--folder", str(folder)]
    process = subprocess.Popen([sys.executable, *command], cwd=environment.PROJECT)
    try:
        wait_for(lambda: listens(port))
        release(port)
        yield port
    finally:
        process.terminate()
        assert process.wait(timeout=10) == 0
