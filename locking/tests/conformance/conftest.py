"""Real servers, started once for all tests of a backend, and clients in processes of their own."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest

from development.needs import require
from development.servers import Server
from locking import Lock, LockUnavailable
from locking.tests.conformance.backends import ALL, Backend
from locking.tests.conformance.clients import ANSWER_TIMEOUT, Client
from locking.tests.helpers import eventually


def when_up(call: Callable[..., Any], *arguments: Any) -> Any:
    """Call again as long as the server is unavailable: a client may still have dead connections.

    A lock allows that both for acquire and for release.
    """
    end = time.monotonic() + 3 * ANSWER_TIMEOUT
    while True:
        try:
            return call(*arguments)
        except LockUnavailable:
            assert time.monotonic() < end
            time.sleep(0.05)


class Deployment:
    """A backend with its running servers: what a test needs to make locks and to do harm."""

    def __init__(self, kind: type[Backend], servers: list[Server]) -> None:
        self.kind = kind
        self.servers = servers
        self.endpoints = [server.endpoint for server in servers]
        kind.prepare(self.endpoints)
        self.here = kind(self.endpoints)  # for the test's own process
        self.capabilities = self.here.lock("any").capabilities

    @contextmanager
    def down(self, count: int | None = None) -> Iterator[None]:
        """Kill the servers, or so many; afterwards wait until this process has found them again."""
        killed = self.servers[:count]
        for server in killed:
            server.kill()
        try:
            yield
        finally:
            for server in killed:
                server.start()
            when_up(self.here.lock("probe").acquire, 10).release()


def each(*kinds: type[Backend]) -> list[Any]:
    return [
        pytest.param(kind, id=kind.__name__, marks=[pytest.mark.long] if kind.heavy else [])
        for kind in kinds
    ]


def only(*kinds: type[Backend]) -> pytest.MarkDecorator:
    """Have a test run on these backends only."""
    return pytest.mark.parametrize("deployment", each(*kinds), indirect=True)


@pytest.fixture(scope="session", params=each(*ALL))
def deployment(request: pytest.FixtureRequest) -> Iterator[Deployment]:
    """The backend with its servers, which all of its tests share."""
    kind: type[Backend] = request.param
    require(*(server.need for server in kind.servers))
    with ExitStack() as running:
        deployment = Deployment(kind, [running.enter_context(server()) for server in kind.servers])
        running.callback(deployment.here.close)
        yield deployment


@pytest.fixture
def name() -> str:
    """A lock that no other test uses."""
    return f"conformance-{uuid.uuid4().hex}"


@pytest.fixture
def lock(deployment: Deployment, name: str) -> Lock:
    """A handle in the test's own process, with a lease far longer than any test."""
    return deployment.here.lock(name)


@pytest.fixture
def client(deployment: Deployment, name: str) -> Iterator[Callable[..., Client]]:
    """Make processes that use the test's lock; options go to the lock."""
    with ExitStack() as running:
        yield lambda **options: running.enter_context(
            Client(deployment.kind, deployment.endpoints, name, **options)
        )


@pytest.fixture
def until_in_line(deployment: Deployment, lock: Lock) -> Callable[[int], None]:
    """Wait until so many clients wait for the lock."""

    def wait(count: int) -> None:
        if when_up(deployment.here.in_line, lock) is None:
            time.sleep(0.2)  # nobody can know; the clients have at least begun
        else:
            eventually(lambda: when_up(deployment.here.in_line, lock) == count)

    return wait
