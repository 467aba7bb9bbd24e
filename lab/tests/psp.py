"""The payment provider as a separate process, for tests."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import urllib3

from development.embedded import ServerUrls
from development.leftovers import private_folder
from lab.psp.books import SCHEMA
from lab.stack.stack import Stack
from shop.tests.processes import wait_for

KEY, SECRET = "sk_test", "whsec_test"


class Psp:
    """A running provider, with its file at `file`."""

    def __init__(self, stack: Stack, file: Path) -> None:
        self._stack, self.file, self.url = stack, file, stack.psp_url

    def kill(self) -> None:
        """`kill -9` it; it is started again."""
        supervisor = self._stack.supervisor
        killed = supervisor.state("psp").pid
        os.kill(killed, signal.SIGKILL)
        wait_for(lambda: supervisor.state("psp").pid not in {0, killed})
        self._stack.wait_until_ready("psp")

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
    with private_folder() as folder:
        extra = {"PSP_DATABASE": str(folder / "books"), "PSP_KEY": KEY, "PSP_WEBHOOK_URL": ""}
        extra["PSP_WEBHOOK_SECRET"] = SECRET
        with Stack(folder / "psp", ServerUrls.of_environment(), extra=extra) as stack:
            stack.start("psp")
            yield Psp(stack, folder / "books")
