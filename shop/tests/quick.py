"""What makes the tests quicker than the shop is: nothing of it is what a test is about."""

from __future__ import annotations

from django.conf import settings
from django.core.management.color import no_style
from django.db import DEFAULT_DB_ALIAS, connections, transaction
from django.test import TransactionTestCase

HASHER = "django.contrib.auth.hashers.MD5PasswordHasher"

KEPT = {"django_content_type", "auth_permission"}
"""What Django writes after a migration, and would write again after each emptying."""


def install() -> None:
    """Make passwords and clean databases cheap in this process."""
    # A slow hash protects real passwords and takes a third of a second.
    settings.PASSWORD_HASHERS = [HASHER, *settings.PASSWORD_HASHERS]
    # Each test client makes the middleware anew, and this one looks at all files when it is made.
    settings.WHITENOISE_AUTOREFRESH = True
    TransactionTestCase._fixture_teardown = _empty  # type: ignore[attr-defined]


def _empty(test: TransactionTestCase) -> None:
    for alias in test.databases:
        delete_all(alias)


def delete_all(alias: str = DEFAULT_DB_ALIAS) -> None:
    """Delete all rows.

    Django truncates every table, which takes PostgreSQL new files for each of them and its
    indexes; few tables of a test have rows.
    """
    connection = connections[alias]
    tables = sorted(set(connection.introspection.django_table_names(only_existing=True)) - KEPT)
    names = [connection.ops.quote_name(table) for table in tables]
    with transaction.atomic(using=alias), connection.cursor() as cursor:
        cursor.execute("SELECT current_setting('is_superuser')")
        if cursor.fetchone() != ("on",):  # a server that somebody else runs
            for statement in connection.ops.sql_flush(no_style(), tables, allow_cascade=True):
                cursor.execute(statement)
            return
        # Without the triggers that refuse to delete a ledger, and the checks of foreign keys.
        cursor.execute("SET LOCAL session_replication_role = replica")
        cursor.execute("; ".join(f"DELETE FROM {name}" for name in names))
