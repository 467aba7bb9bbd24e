"""The sold-out hint when Redis fails over to a replica that lacks the last writes."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
import redis

from inventory.outcomes import Level
from inventory.redis import Circuit, Server
from inventory.selling.hint import LIFETIME, Hint
from locking.tests.servers import Valkey

ITEM = 7


class Process:
    """A web process: its client, its server tracker and its hint."""

    def __init__(self, port: int, *, careful: bool = True) -> None:
        self.server = Server()
        self.client = redis.Redis(
            port=port,
            socket_timeout=2,
            redis_connect_func=self.server.meet,  # type: ignore[arg-type]  # redis-py's own is wrong
        )
        self.hint = Hint(self.client, Circuit(), self.server if careful else None)

    def is_led_to(self, port: int) -> None:
        """Fail over as a proxy or a DNS name does: the old connections break."""
        self.client.connection_pool.disconnect()
        self.client.connection_pool.connection_kwargs["port"] = port
        for connection in self.client.connection_pool._available_connections:
            connection.port = port


@pytest.fixture
def ports() -> Iterator[tuple[int, int]]:
    """A primary and the replica that will take over, with the same old hint."""
    with ExitStack() as cleanup:
        primary, replica = (cleanup.enter_context(Valkey()).port for _ in range(2))
        for port in (primary, replica):
            old = Process(port)
            old.hint.publish(ITEM, Level(0, 5))
            old.client.close()
        yield primary, replica


def restock_is_lost(process: Process, replica: int) -> None:
    """Acknowledge a restock whose publication does not reach the replica."""
    assert process.hint.read(ITEM) == Level(0, 5)
    assert process.hint.publish(ITEM, Level(9, 6))
    process.is_led_to(replica)


def test_an_old_hint_of_a_promoted_replica_is_not_believed(ports: tuple[int, int]) -> None:
    process = Process(ports[0])
    restock_is_lost(process, ports[1])
    assert process.hint.read(ITEM) is None, "there are nine"
    process.client.close()


def test_without_the_server_check_a_stale_hint_counts(ports: tuple[int, int]) -> None:
    """The negative control."""
    process = Process(ports[0], careful=False)
    restock_is_lost(process, ports[1])
    assert process.hint.read(ITEM) == Level(0, 5)
    process.client.close()


def test_the_new_server_is_believed_when_what_it_had_has_ended(ports: tuple[int, int]) -> None:
    process = Process(ports[0])
    restock_is_lost(process, ports[1])
    process.hint.read(ITEM)
    process.server._since = time.monotonic() - LIFETIME
    process.hint.publish(ITEM, Level(0, 12))
    assert process.hint.read(ITEM) == Level(0, 12)
    process.client.close()


def test_new_connections_to_the_same_server_change_nothing(ports: tuple[int, int]) -> None:
    process = Process(ports[0])
    for _ in range(3):
        assert process.hint.read(ITEM) == Level(0, 5)
        process.client.connection_pool.disconnect()
    process.client.close()


def test_a_server_without_an_id_may_be_another_each_time(
    ports: tuple[int, int],
) -> None:
    admin = redis.Redis(port=ports[0])
    admin.execute_command("ACL", "SETUSER", "default", "-info")
    process = Process(ports[0])
    assert process.hint.read(ITEM) is None
    admin.execute_command("ACL", "SETUSER", "default", "+info")
    admin.close()
    process.client.close()
