"""The payment provider as a separate process, for tests."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

import psutil
import psycopg
import urllib3

from development.ports import next_free, release
from lab import environment
from lab.stack.stack import serves
from shop.tests.processes import wait_for

KEY, SECRET = "sk_test", "whsec_test"


class Psp:
    """A running provider.

    Attributes:
        url: its address.
        database: URL of its own database.
        process: gunicorn's master.
    """

    def __init__(self, url: str, database: str, process: subprocess.Popen[bytes]) -> None:
        self.url = url
        self.database = database
        self.process = process

    def behave(self, **how: Any) -> None:
        """Configure its behaviour (see lab/psp/behaviour.py); by default, no faults."""
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
        """Run a statement in its database; return its rows, if any."""
        with psycopg.connect(self.database, autocommit=True) as connection:
            cursor = connection.execute(statement.encode(), values)
            return cursor.fetchall() if cursor.description else []

    def quiet(self) -> bool:
        """Whether the shop has accepted all webhooks."""
        return not self.sql("SELECT 1 FROM psp_event WHERE remaining > 0 LIMIT 1")

    def kill_worker(self) -> None:
        """`kill -9` its worker; gunicorn starts another."""
        for worker in psutil.Process(self.process.pid).children():
            worker.kill()

    def forget(self) -> None:
        """Reset behaviour and data: order ids repeat in other tests."""
        wait_for(lambda: serves(f"{self.url}/healthz"))
        self.behave()
        # Bypass the trigger that makes the ledger append-only.
        with psycopg.connect(self.database) as connection:
            connection.execute("SET session_replication_role = replica")
            for table in ("event", "idempotencykey", "ledgerline", "refund", "intent"):
                connection.execute(f"DELETE FROM psp_{table}".encode())


@contextmanager
def running_psp() -> Iterator[Psp]:
    """Start a provider with its own database on the tests' server."""
    shops = os.environ["DATABASE_URL"]
    name = f"psp_{uuid4().hex[:12]}"
    database = urlsplit(shops)._replace(path=f"/{name}").geturl()
    port = next_free(18790)
    variables = {
        **os.environ,
        "PSP_DATABASE_URL": database,
        "PSP_KEY": KEY,
        "PSP_WEBHOOK_SECRET": SECRET,
        "SHOP_DEMO": "1",
    }
    command = [sys.executable, "-m", "lab.psp", "--bind", f"127.0.0.1:{port}"]
    process = subprocess.Popen(command, cwd=environment.PROJECT, env=variables)
    try:
        url = f"http://127.0.0.1:{port}"
        wait_for(lambda: serves(f"{url}/healthz") or process.poll() is not None)
        assert process.poll() is None, "the payment provider does not start"
        release(port)
        yield Psp(url, database, process)
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(30)
        with psycopg.connect(shops, autocommit=True) as connection:
            connection.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)".encode())
