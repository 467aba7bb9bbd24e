"""Three web nodes behind nginx are restarted one after another during a rush: no request fails."""

from __future__ import annotations

import asyncio
import random
import subprocess
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from itertools import cycle
from pathlib import Path
from uuid import uuid4

import pytest

from development.embedded import ServerUrls, private_servers
from development.ports import next_free
from development.private import private_folder
from lab.bed.fronts import configure_nginx
from lab.stack.stack import Stack
from lab.tests.composed import ask
from lab.tests.managed import manage
from lab.tests.needs import NGINX
from loadtest import framing
from locking.tests.needs import find, needs
from shop.tests.processes import wait_for

pytestmark = [
    pytest.mark.long,
    pytest.mark.nightly,
    pytest.mark.timeout(900),
    needs(NGINX),
]

NODES = 3
BUYERS = 1000
SIGNED_IN = 50
PAUSE = 10.0
"""Seconds between two requests of a buyer, on average."""

Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@contextmanager
def nginx(folder: Path, port: int, nodes: list[int]) -> Iterator[None]:
    """Run nginx with the shop's own configuration."""
    command = configure_nginx(folder, port, [f"127.0.0.1:{node}" for node in nodes])
    program = find(command[0]) or command[0]
    with (folder / "nginx.log").open("wb") as log:
        process = subprocess.Popen([program, *command[1:]], stderr=log)
    try:
        wait_for(lambda: ask(port, "GET", "/healthz").status == 200 if serves(port) else False)
        yield
    finally:
        process.terminate()
        process.wait(30)


def serves(port: int) -> bool:
    try:
        return ask(port, "GET", "/healthz").status > 0
    except OSError:
        return False


class Rush:
    """Buyers: pages, purchases with a key, purchases by a page's form."""

    def __init__(self, port: int) -> None:
        self.port = port
        terms = {"stock": 1_000_000, "limit": 1_000_000}
        self.sale = ask(port, "POST", "/api/v1/demo/sales", terms).body["sale"]
        tokens = ask(port, "POST", "/api/v1/demo/buyers", {"count": SIGNED_IN}).body["tokens"]
        self.signed_in = [(token, self.cookie(token)) for token in tokens]
        self.over = threading.Event()
        self.answers: Counter[tuple[str, object]] = Counter()

    def cookie(self, token: str) -> str:
        session = ask(self.port, "POST", "/api/v1/demo/sessions", Authorization=f"Bearer {token}")
        return str(session.body["cookie"])

    def page(self, token: str, cookie: str) -> bytes:
        return self.request("GET", f"/sales/{self.sale}/", Cookie=cookie)

    def order(self, token: str, cookie: str) -> bytes:
        named = {"Authorization": f"Bearer {token}", "Idempotency-Key": str(uuid4())}
        path = f"/api/v1/sales/{self.sale}/orders"
        return self.request("POST", path, b'{"quantity": 1}', "application/json", **named)

    def form(self, token: str, cookie: str) -> bytes:
        """A POST without the header that would let nginx repeat it."""
        secret = "s" * 32
        fields = f"key={uuid4()}&quantity=1&csrfmiddlewaretoken={secret}".encode()
        kind = "application/x-www-form-urlencoded"
        cookies = f"{cookie}; csrftoken={secret}"
        return self.request("POST", f"/sales/{self.sale}/", fields, kind, Cookie=cookies)

    def request(
        self, method: str, path: str, body: bytes = b"", kind: str = "text/plain", **named: str
    ) -> bytes:
        headers = {**named, "Content-Type": kind}
        host = f"127.0.0.1:{self.port}"
        return framing.request_bytes(method, path, host, headers=headers, body=body)

    @contextmanager
    def running(self) -> Iterator[None]:
        """Run inside the block."""
        thread = threading.Thread(target=asyncio.run, args=[self._all()])
        thread.start()
        try:
            self.wait_for_more()
            yield
            self.wait_for_more()
        finally:
            self.over.set()
            thread.join()

    def wait_for_more(self) -> None:
        wanted = self.answers.total() + BUYERS
        wait_for(lambda: self.answers.total() > wanted, 180)

    async def _all(self) -> None:
        await asyncio.gather(*(self._buyer(number) for number in range(BUYERS)))

    async def _buyer(self, number: int) -> None:
        token, cookie = self.signed_in[number % SIGNED_IN]
        steps = cycle((self.page, self.order, self.form))
        connection = None
        while not self.over.is_set():
            # Spread over time, not secret.
            await asyncio.sleep(random.uniform(0, 2 * PAUSE))
            step = next(steps)
            try:
                connection = connection or await asyncio.open_connection("127.0.0.1", self.port)
                answer = await self._answer(connection, step(token, cookie))
                self.answers[step.__name__, answer.status] += 1
                if answer.closes:
                    connection[1].close()
                    connection = None
            except (OSError, EOFError) as error:
                self.answers[step.__name__, repr(error)] += 1
                connection = None
        if connection:
            connection[1].close()

    async def _answer(self, connection: Connection, request: bytes) -> framing.Response:
        reader, writer = connection
        writer.write(request)
        data = b""
        while True:
            more = await reader.read(framing.READ_SIZE)
            data += more
            if answer := framing.parse(data, closed=not more):
                return answer
            if not more:
                raise EOFError("closed without an answer")


@contextmanager
def nodes(folder: Path, urls: ServerUrls) -> Iterator[list[Stack]]:
    manage(urls, "migrate", "--verbosity", "0")
    with ExitStack() as cleanup:
        web = []
        for number in range(NODES):
            each = cleanup.enter_context(Stack(folder / f"node{number}", urls))
            each.start("web")
            web.append(each)
        yield web


def test_a_rolling_restart_during_a_rush_fails_no_request() -> None:
    with (
        private_servers(durable=False) as servers,
        private_folder() as folder,
        nodes(folder, servers.urls) as web,
        nginx(folder, port := next_free(18400), [node.port for node in web]),
    ):
        rush = Rush(port)
        before = [node.supervisor.state("web").pid for node in web]
        with rush.running():
            for node in web:
                node.supervisor.stop_program("web")
                node.supervisor.start_program("web")
                wait_for(partial(serves, node.port), 180)
        after = [node.supervisor.state("web").pid for node in web]
        log = (folder / "nginx.log").read_text()[-3000:]
    assert not set(before) & set(after)
    # 503: a busy machine's own answer, after which buyers come again. Nothing was lost or doubled.
    answered = {kind for kind in rush.answers if kind[1] != 503}
    assert answered == {("page", 200), ("order", 201), ("form", 302)}, (rush.answers, log)
