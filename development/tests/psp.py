"""The fake payment provider as a separate process, for tests."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

import urllib3

from development.processes import PaymentProvider
from development.psp.books import SCHEMA

KEY, SECRET = "sk_test", "whsec_test"


class Psp:
    """A running provider with a file of its own.

    Attributes:
        url: its address.
    """

    def __init__(self, process: PaymentProvider) -> None:
        self._process, self.url = process, process.endpoint

    def kill(self) -> None:
        """`kill -9` it, and start it again."""
        self._process.kill()
        self._process.start()

    def behave(self, **how: Any) -> None:
        """Configure its behaviour (see development/psp/books.py); by default, no faults."""
        self.call("behaviour", how)

    def call(self, path: str, body: Any = None) -> bytes:
        """Call it without the shop's client; return the answer's body."""
        answer = urllib3.request(
            "GET" if body is None else "POST",
            f"{self.url}/v1/{path}",
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
        with self._file() as connection:
            connection.execute("PRAGMA foreign_keys = ON")
            return connection.execute(statement, values).fetchall()

    def quiet(self) -> bool:
        """Return whether the shop has accepted all webhooks."""
        return not self.sql("SELECT 1 FROM event WHERE remaining > 0 LIMIT 1")

    def forget(self) -> None:
        """Reset behaviour and data: order ids repeat in other tests."""
        self.behave()
        # Around the triggers that make the ledger append-only.
        with self._file() as connection:
            for trigger in ("ledger_is_not_changed", "ledger_is_not_shortened"):
                connection.execute(f"DROP TRIGGER {trigger}")
            for table in ("event", "request", "ledger", "refund", "intent"):
                connection.execute(f"DELETE FROM {table}")
            connection.executescript(SCHEMA)

    def _file(self) -> closing[sqlite3.Connection]:
        path = self._process.variables["PSP_DATABASE"]
        return closing(sqlite3.connect(path, isolation_level=None))


@contextmanager
def running_psp() -> Iterator[Psp]:
    """Start a provider with a file of its own."""
    process = PaymentProvider({"PSP_KEY": KEY, "PSP_WEBHOOK_SECRET": SECRET, "SHOP_DEMO": "1"})
    process.variables["PSP_DATABASE"] = str(process.home / "books")
    with process:
        yield Psp(process)
