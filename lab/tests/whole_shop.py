"""A whole shop on servers of a test's own, reached by HTTP."""

from __future__ import annotations

import http.client
import json
import os
import secrets
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

from development.embedded import ServerUrls, private_servers
from development.leftovers import private_folder
from lab.stack.stack import Stack
from shop.tests.processes import succeed


def manage(urls: ServerUrls, *words: str, **variables: str) -> None:
    """Run `manage.py` with these words on these servers; the test fails if it does."""
    env = {**os.environ, **urls.as_environment(), **variables}
    succeed(sys.executable, "manage.py", *words, env=env)


@contextmanager
def whole_shop(**variables: str) -> Iterator[Stack]:
    """Start the web processes and the payment provider with these variables."""
    with private_servers(durable=False) as servers, private_folder() as folder:
        manage(servers.urls, "migrate", "--verbosity", "0")
        with Stack(folder / "shop", servers.urls, extra=variables) as stack:
            stack.start("psp", "web")
            yield stack


def production(urls: ServerUrls, host: str, **more: str) -> dict[str, str]:
    """Return all variables of a shop in production, whose payment provider is not there."""
    return {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "PSP_URL": "http://127.0.0.1:1",
        "PSP_KEY": "only-for-this-test",
        "ALLOWED_HOSTS": host,
        **{name: secrets.token_hex() for name in ("SECRET_KEY", "PSP_WEBHOOK_SECRET")},
        **urls.as_environment(),
        **more,
    }


class Answer:
    """A response: status, headers, and the body, parsed if it is JSON."""

    def __init__(self, response: http.client.HTTPResponse) -> None:
        self.status, self.headers = response.status, response.headers
        text = response.read()
        kind = response.headers.get("Content-Type", "")
        self.body: Any = json.loads(text) if "json" in kind else text


class Client:
    """A persistent connection to a shop."""

    def __init__(self, port: int) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)

    def ask(self, method: str, path: str, body: object = None, **headers: str) -> Answer:
        text = None if body is None else json.dumps(body)
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        self._connection.request(method, path, text, {"Content-Type": "application/json", **named})
        return Answer(self._connection.getresponse())

    def buy(self, sale: int, token: str, key: str = "", units: int = 1) -> Answer:
        """Order some units, by a new key unless one is given."""
        headers = {"Authorization": f"Bearer {token}", "Idempotency_Key": key or str(uuid4())}
        return self.ask("POST", f"/api/v1/sales/{sale}/orders", {"quantity": units}, **headers)

    def close(self) -> None:
        self._connection.close()


def ask(port: int, *words: Any, **headers: str) -> Answer:
    """Send a request on a new connection."""
    with closing(Client(port)) as client:
        return client.ask(*words, **headers)


def new_sale(port: int, **terms: object) -> int:
    """Open a sale; return its id."""
    sale: int = ask(port, "POST", "/api/v1/demo/sales", terms).body["sale"]
    return sale


def new_buyers(port: int, count: int) -> list[str]:
    """Create buyers; return their tokens."""
    tokens: list[str] = ask(port, "POST", "/api/v1/demo/buyers", {"count": count}).body["tokens"]
    return tokens


def buy(port: int, sale: int, token: str, key: str = "", units: int = 1) -> Answer:
    """Order some units on a new connection."""
    with closing(Client(port)) as client:
        return client.buy(sale, token, key, units)
