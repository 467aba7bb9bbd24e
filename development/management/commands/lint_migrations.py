"""`manage.py lint_migrations`: refuse migrations that stop a live sale."""

import subprocess
import sys
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand
from django.db import connections
from django.db.migrations import Migration
from django.db.migrations.executor import MigrationExecutor
from django.db.migrations.loader import MigrationLoader

from development.embedded import private_servers

BASELINE = dict.fromkeys(("accounts", "draws", "inventory", "shop"), "0001_initial")
"""The last migration of each app that is not linted.

It creates the tables, so no live shop runs it. Do not move the baseline: fix the
migration instead, or write an exception with its reason into the SQL (`-- squawk-ignore`).
"""

RULES = [
    "--pg-version=18.0",
    "--assume-in-transaction",  # Django's own, unless a migration says `atomic = False`
    # The migration job sets lock_timeout for its whole session (docker-compose.yml).
    "--exclude=require-timeout-settings",
    # Matters of taste, which Django's field types decide: no lock, no outage.
    "--exclude=prefer-bigint-over-int,prefer-bigint-over-smallint,prefer-identity",
    "--exclude=prefer-text-field,prefer-robust-stmts",
]


class Command(BaseCommand):
    """Passes the SQL of every migration after the baseline to squawk."""

    help = "Refuse migrations that block a live sale or that the version before cannot live with."
    requires_system_checks: list[str] = []

    def handle(self, *args: Any, **options: Any) -> None:
        """Lint; exit with 1 if squawk finds something."""
        new = _after_baseline(MigrationLoader(None, ignore_no_migrations=True))
        failed = bool(new) and not all_safe(new)
        print(f"{len(new)} migrations after the baseline, {'unsafe' if failed else 'none unsafe'}.")
        if failed:
            sys.exit(1)


def _after_baseline(loader: MigrationLoader) -> list[tuple[str, str]]:
    return sorted(
        (app, name)
        for app, name in loader.disk_migrations or {}
        if app in BASELINE and name > BASELINE[app]
    )


def all_safe(new: list[tuple[str, str]]) -> bool:
    """Apply all migrations to an empty database; lint the SQL of the new ones on the way.

    Applied, because Django looks up names of constraints in the tables as they then are.
    """
    import dj_database_url

    with private_servers() as servers:
        settings = dj_database_url.parse(servers.urls.database, engine="inventory.postgresql")
        # An alias of its own: the default may be another database, or none.
        known = connections.configure_settings({"default": {}, "lint": dict(settings)})
        connections.settings["lint"] = known["lint"]
        connection = connections["lint"]
        try:
            executor = MigrationExecutor(connection)
            safe = True
            for migration, _ in executor.migration_plan(executor.loader.graph.leaf_nodes()):
                key = (migration.app_label, migration.name)
                if key in new:
                    statements = _sql_of(executor.loader, migration)
                    safe = is_safe(key, statements, atomic=migration.atomic) and safe
                executor.migrate([key])
                executor.loader.build_graph()
            return safe
        finally:
            connection.close()
            del connections["lint"], connections.settings["lint"]


def _sql_of(loader: MigrationLoader, migration: Migration) -> list[str]:
    # As `manage.py sqlmigrate` does it; unknown to the type stubs.
    sql: list[str] = loader.collect_sql([(migration, False)])  # type: ignore[attr-defined]
    return sql


def is_safe(key: tuple[str, str], statements: list[str], *, atomic: bool) -> bool:
    """Lint the SQL of one migration.

    Args:
        key: its app and name.
        statements: its SQL.
        atomic: whether it runs in one transaction.
    """
    rules = [rule for rule in RULES if atomic or rule != "--assume-in-transaction"]
    squawk = Path(sys.executable).with_name("squawk")
    command = [str(squawk), "--reporter=gcc", *rules]
    command += [f"--stdin-filepath={key[0]}/migrations/{key[1]}.sql"]
    sys.stdout.flush()
    sql = "\n".join(statements)
    return not subprocess.run(command, input=sql, text=True, check=False).returncode
