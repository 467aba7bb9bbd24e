"""The database engine ``inventory.postgresql``: Django's own, with a check at checkout.

A PostgreSQL server that dies or ends a session closes its socket, but the pool keeps the connection
until a request fails on it: up to ``max_size`` failed requests per process, spread over as long as
it takes to use each connection once. Django's ``CONN_HEALTH_CHECKS`` costs a round trip per
checkout, and waits a second or more after the second dead connection. Looking at the socket costs
some microseconds and no waiting.
"""

from __future__ import annotations

from typing import Any

from django.db.backends.postgresql import base
from psycopg import Connection, OperationalError

from inventory.feature_flags import feature_flags


class DatabaseWrapper(base.DatabaseWrapper):
    """A connection of Django's that never starts on a dead connection of the pool."""

    def get_new_connection(self, conn_params: dict[str, Any]) -> Any:
        """Take a connection from the pool, and drop the dead ones that come before it.

        Raises:
            psycopg.OperationalError: no connection can be made, or none was free in time.
        """
        connection = super().get_new_connection(conn_params)
        pool = self.pool  # type: ignore[attr-defined]  # missing in django-stubs
        while pool and feature_flags().connections and not is_alive(connection):
            pool.putconn(connection)  # closed by now, so the pool replaces it
            connection = super().get_new_connection(conn_params)
        return connection


def is_alive(connection: Connection[Any]) -> bool:
    """Return False if the server has closed an idle connection; never waits."""
    try:
        # The first read may find only the server's farewell; the second then finds the end.
        connection.pgconn.consume_input()
        connection.pgconn.consume_input()
    except OperationalError:
        return False
    return True
