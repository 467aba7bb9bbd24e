"""Migrations of the shop's tables that live in `own/migrations`."""

from __future__ import annotations

import pytest
from django.db import connection, migrations, models
from django.db.migrations import Migration
from django.db.migrations.loader import MigrationLoader

from own.management.commands.makemigrations import gathered
from own.operations import InApp

ADD = migrations.AddField("order", "address", models.TextField(db_default=""))


def made(app: str, *operations: migrations.operations.base.Operation) -> Migration:
    """Return a migration as Django would make it."""
    attributes = {"operations": list(operations), "dependencies": [("shop", "0007_product_texts")]}
    kind: type[Migration] = type("Migration", (Migration,), attributes)
    return kind("0999_order_address", app)


def test_makemigrations_puts_a_field_of_the_shop_into_own() -> None:
    migration = gathered({"shop": [made("shop", ADD)]})
    assert migration.app_label == "own"
    assert migration.name.endswith("_order_address")
    assert ("shop", "0007_product_texts") in migration.dependencies
    [operation] = migration.operations
    assert isinstance(operation, InApp)
    assert (operation.app, operation.operation) == ("shop", ADD)


def test_makemigrations_puts_own_tables_before_references() -> None:
    table = migrations.CreateModel("Carrier", [("id", models.BigAutoField(primary_key=True))])
    migration = gathered({"shop": [made("shop", ADD)], "own": [made("own", table)]})
    assert migration.operations[0] is table
    assert isinstance(migration.operations[1], InApp)


@pytest.mark.django_db(transaction=True)
def test_in_app_adds_and_removes_a_field_of_another_app() -> None:
    def columns() -> set[str]:
        with connection.cursor() as cursor:
            found = connection.introspection.get_table_description(cursor, "shop_order")
        return {column.name for column in found}

    operation = InApp("shop", ADD)
    before = MigrationLoader(connection).project_state()
    after = before.clone()
    operation.state_forwards("own", after)
    assert "address" in after.models["shop", "order"].fields
    with connection.schema_editor() as editor:
        operation.database_forwards("own", editor, before, after)
    assert "address" in columns()
    with connection.schema_editor() as editor:
        operation.database_backwards("own", editor, after, before)
    assert "address" not in columns()
