"""The database engine ``inventory.postgresql``: Django's, with a liveness check at checkout.

When a PostgreSQL server dies or ends a session, it closes the socket, but the pool keeps the
connection until a request fails on it: up to ``max_size`` failed requests per process. Django's
``CONN_HEALTH_CHECKS`` costs a round trip per checkout, and pauses for a second or more after the
second dead connection. Reading the socket costs microseconds.
"""

from __future__ import annotations

from typing import Any

from django.db.backends.postgresql import base
from psycopg import Connection, OperationalError

from inventory.feature_flags import feature_flags
from inventory.metrics import metrics


class DatabaseWrapper(base.DatabaseWrapper):
    """A Django connection that is never a dead connection of the pool."""

    def get_new_connection(self, conn_params: dict[str, Any]) -> Any:
        """Take a connection from the pool; discard dead ones.

        Raises:
            psycopg.OperationalError: no connection can be made, or none became free in time.
        """
        connection = super().get_new_connection(conn_params)
        pool = self.pool  # type: ignore[attr-defined]  # missing in django-stubs
        while pool and feature_flags().connections and not is_alive(connection):
            metrics.count("connections_dead")
            pool.putconn(connection)  # closed by now, so the pool replaces it
            connection = super().get_new_connection(conn_params)
        return connection


def is_alive(connection: Connection[Any]) -> bool:
    """Return False if the server has closed an idle connection; never waits."""
    try:
        # The first read may return only the server's last message; the second finds the end.
        connection.pgconn.consume_input()
        connection.pgconn.consume_input()
    except OperationalError:
        return False
    return True
