"""`inventory.postgresql`: no request starts on a connection that the server has closed."""

from __future__ import annotations

import threading

import psycopg
import pytest
from django.db import Error, connection, transaction

from inventory.conf import FEATURE_FLAGS
from inventory.metrics import metrics
from inventory.models import Item
from inventory.postgresql.base import is_alive, lend_connections
from inventory.tests.helpers import TIMEOUT, at_once, outsider

pytestmark = pytest.mark.django_db(transaction=True)

POOLED = 6
"""Connections that are idle in the pool when the server ends them."""

END_ALL = """
SELECT count(*) FILTER (WHERE pg_terminate_backend(pid, 10000)) FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'
"""
"""Waits until the processes have ended, and so their sockets are closed."""


def ask() -> int:
    """Query the database in a request of its own."""
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
            return int(cursor.fetchone()[0])
    finally:
        connection.close()


@pytest.fixture
def dead_pool() -> None:
    """Fill this process's pool, then end all its connections on the server."""
    everyone_has_one = threading.Barrier(POOLED)

    def hold() -> None:
        with connection.cursor():
            everyone_has_one.wait(TIMEOUT)

    assert at_once([hold] * POOLED) == [None] * POOLED
    connection.close()
    with outsider() as session:
        ended = session.execute(END_ALL).fetchone()
    assert ended is not None
    assert ended[0] >= POOLED


def test_requests_after_the_server_ended_all_connections_are_all_served(dead_pool):
    before = metrics.read()["connections_dead"]
    assert [ask() for _ in range(2 * POOLED)] == [1] * 2 * POOLED
    assert metrics.read()["connections_dead"] >= before + POOLED


def test_without_the_check_requests_fail_on_the_dead_connections(dead_pool, settings):
    settings.INVENTORY_FEATURE_FLAGS = [name for name in FEATURE_FLAGS if name != "connections"]
    failed = 0
    for _ in range(2 * POOLED):
        try:
            ask()
        except Error:
            failed += 1
    assert failed >= POOLED


def test_a_connection_with_a_notice_from_the_server_is_alive():
    with outsider() as session, outsider() as other:
        session.execute("LISTEN news")
        other.execute("NOTIFY news")
        assert is_alive(session)
        assert session.execute("SELECT 1").fetchone() == (1,)


def test_a_closed_connection_is_not_alive():
    with outsider() as session:
        assert is_alive(session)
        session.close()
        assert not is_alive(session)


def test_a_connection_that_the_server_ended_is_not_alive():
    with outsider() as session, outsider() as other:
        other.execute("SELECT pg_terminate_backend(%s, 10000)", [session.info.backend_pid])
        assert not is_alive(session)
        with pytest.raises(psycopg.OperationalError):
            session.execute("SELECT 1")


def test_a_connection_is_lent_each_time_and_not_inside_a_transaction():
    for _ in range(2):
        Item.objects.first()
        assert connection.connection is not None
        lend_connections()
        assert connection.connection is None
    with transaction.atomic():
        Item.objects.first()
        lend_connections()
        assert connection.connection is not None
    lend_connections()
    assert connection.connection is None
