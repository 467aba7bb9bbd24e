"""A whole shop on servers of a test's own, reached by HTTP."""

from __future__ import annotations

import http.client
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

from development.embedded import ServerUrls, private_servers
from development.private import private_folder
from lab import environment
from lab.stack.stack import Stack


def manage(urls: ServerUrls, *words: str, **variables: str) -> None:
    """Run `manage.py` with these words on these servers; the test fails if it does."""
    subprocess.run(
        [sys.executable, "manage.py", *words],
        cwd=environment.PROJECT,
        env={**os.environ, **urls.as_environment(), **variables},
        check=True,
        timeout=120,
    )


@contextmanager
def whole_shop(**variables: str) -> Iterator[Stack]:
    """Start the web processes and the payment provider with these variables."""
    with private_servers(durable=False) as servers, private_folder() as folder:
        manage(servers.urls, "migrate", "--verbosity", "0")
        with Stack(folder / "shop", servers.urls, extra=variables) as stack:
            stack.start("psp", "web")
            yield stack


class Answer:
    """A response: status, headers, and the body, parsed if it is JSON."""

    def __init__(self, response: http.client.HTTPResponse) -> None:
        self.status, self.headers = response.status, response.headers
        text = response.read()
        self.body: Any = json.loads(text) if "json" in response.headers["Content-Type"] else text


class Client:
    """A persistent connection to a shop."""

    def __init__(self, port: int) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)

    def ask(self, method: str, path: str, body: object = None, **headers: str) -> Answer:
        text = None if body is None else json.dumps(body)
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        self._connection.request(method, path, text, {"Content-Type": "application/json", **named})
        return Answer(self._connection.getresponse())

    def close(self) -> None:
        self._connection.close()


def ask(port: int, *words: Any, **headers: str) -> Answer:
    """Send a request on a new connection."""
    with closing(Client(port)) as client:
        return client.ask(*words, **headers)
