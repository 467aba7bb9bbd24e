"""The payment provider as a separate process, for tests."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import urllib3

from development.ports import next_free, release
from lab import environment
from lab.psp.books import SCHEMA
from lab.stack.stack import serves
from shop.tests.processes import wait_for

KEY, SECRET = "sk_test", "whsec_test"


class Psp:
    """A running provider, with its file at `file`."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self._port = next_free(18790)
        self.url = f"http://127.0.0.1:{self._port}"
        self._start()

    def _start(self) -> None:
        variables = {
            **os.environ,
            "PSP_DATABASE": str(self.file),
            "PSP_KEY": KEY,
            "PSP_WEBHOOK_SECRET": SECRET,
            "SHOP_DEMO": "1",
        }
        command = [sys.executable, "-m", "lab.psp", "--bind", f"127.0.0.1:{self._port}"]
        self._process = subprocess.Popen(command, cwd=environment.PROJECT, env=variables)
        wait_for(lambda: serves(f"{self.url}/healthz") or self._process.poll() is not None)
        assert self._process.poll() is None, "the payment provider does not start"

    def kill(self) -> None:
        """`kill -9` it, and start it again."""
        self._process.kill()
        self._process.wait()
        self._start()

    def stop(self) -> None:
        """End it."""
        self._process.terminate()
        self._process.wait(30)
        release(self._port)

    def behave(self, **how: Any) -> None:
        """Configure its behaviour (see lab/psp/books.py); by default, no faults."""
        self.call("behaviour", how)

    def call(self, path: str, body: Any = None) -> bytes:
        """Call it without the shop's client; return the answer's body."""
        answer = urllib3.request(
            *("GET" if body is None else "POST", f"{self.url}/v1/{path}"),
            json=body,
            headers={"Authorization": f"Bearer {KEY}", "Connection": "close"},
            timeout=30,
        )
        assert answer.status == 200, answer.data
        return answer.data

    def ledger(self, *orders: int) -> list[tuple[int, str, int]]:
        """Return (order, operation, amount in minor units) of these orders, oldest first."""
        *lines, end = map(json.loads, self.call("ledger").splitlines())
        assert end == {"lines": len(lines)}
        wanted = [line for line in lines if line["order"] in orders]
        return [(line["order"], line["operation"], line["amount"]) for line in wanted]

    def sql(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        """Run a statement in its file; return its rows, if any."""
        with closing(sqlite3.connect(self.file, isolation_level=None)) as connection:
            connection.execute("PRAGMA foreign_keys = ON")
            return connection.execute(statement, values).fetchall()

    def quiet(self) -> bool:
        """Whether the shop has accepted all webhooks."""
        return not self.sql("SELECT 1 FROM event WHERE remaining > 0 LIMIT 1")

    def forget(self) -> None:
        """Reset behaviour and data: order ids repeat in other tests."""
        self.behave()
        # Around the triggers that make the ledger append-only.
        with closing(sqlite3.connect(self.file, isolation_level=None)) as connection:
            for trigger in ("ledger_is_not_changed", "ledger_is_not_shortened"):
                connection.execute(f"DROP TRIGGER {trigger}")
            for table in ("event", "request", "ledger", "refund", "intent"):
                connection.execute(f"DELETE FROM {table}")
            connection.executescript(SCHEMA)


@contextmanager
def running_psp() -> Iterator[Psp]:
    """Start a provider with a file of its own."""
    with TemporaryDirectory() as folder:
        psp = Psp(Path(folder, "books"))
        try:
            yield psp
        finally:
            psp.stop()
