"""`manage.py makemigrations`, which in a shop that was taken home writes into `own/migrations`."""

from __future__ import annotations

from typing import Any

from django.core.management.commands import makemigrations
from django.db.migrations import Migration
from django.db.migrations.loader import MigrationLoader

from own.operations import InApp
from shop import environment

OWN = "own"


class Command(makemigrations.Command):
    """Django's command; what changed in other apps' tables becomes a migration of `own`."""

    def write_migration_files(self, changes: dict[str, list[Migration]], *more: Any) -> None:
        """Write the migrations, or show them (`--dry-run`)."""
        if environment.own("own_migrations") and changes:
            changes = {OWN: [gathered(changes)]}
        super().write_migration_files(changes, *more)


def gathered(changes: dict[str, list[Migration]]) -> Migration:
    """Return one migration of `own` with the changes of all apps, its own first."""
    found = sorted(
        ((label, migration) for label, some in changes.items() for migration in some),
        key=lambda pair: pair[0] != OWN,
    )
    new = {(label, migration.name) for label, migration in found}
    leaves = MigrationLoader(None).graph.leaf_nodes(OWN)
    operations = [
        operation if label == OWN else InApp(label, operation)
        for label, migration in found
        for operation in migration.operations
    ]
    given = found[0][1].name.partition("_")[2]
    parents = {parent for _, migration in found for parent in migration.dependencies}
    # As Django's autodetector makes them: `Migration`'s attributes belong to its class.
    attributes = {
        "operations": operations,
        "dependencies": sorted((parents | set(leaves)) - new),
    }
    made: type[Migration] = type("Migration", (Migration,), attributes)
    return made(f"{_number(leaves):04}_{given}", OWN)


def _number(leaves: list[tuple[str, str]]) -> int:
    """Return the next number; a name without one counts as nothing."""
    numbers = [int(name[:4]) for _, name in leaves if name[:4].isdecimal()]
    return max(numbers, default=0) + 1
