"""System checks for projects that use this app (`manage.py check`).

No check opens a connection. Checks of the deployment run with `check --deploy`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from difflib import get_close_matches
from typing import Any

import psycopg.waiting
from django.apps import apps
from django.conf import settings
from django.core import checks
from django.core.checks import CheckMessage, Error, Tags, register
from django.db import connections
from django.db.migrations.loader import MigrationLoader
from psycopg import IsolationLevel

from inventory import conf
from inventory.selling import batch
from inventory.sql import made_by_django, without_value

WRITTEN_IN_SQL = {
    "Item": ("name", "total", "available", "reserved", "ledger", "fence", "version"),
    "StockMovement": ("item", "delta", "reason", "token"),
    "BuyerQuota": ("scope", "buyer", "used", "allowed"),
    "ReservationQuota": ("reservation", "scope", "subject"),
    "OutboxMessage": ("topic", "payload"),
}
"""Models whose rows are written in SQL that names these fields only."""


@register("inventory")
def check_settings(**_: Any) -> Iterator[CheckMessage]:
    """Find unknown settings and invalid values."""
    names = {setting.name for setting in conf.ALL}
    for name in dir(settings):
        if name.startswith(conf.PREFIX) and name not in names:
            near = get_close_matches(name, names, 1)
            yield checks.Warning(
                f"The setting {name} does not exist and has no effect.",
                hint=f"Did you mean {near[0]}?"
                if near
                else f"The settings are {', '.join(names)}.",
                id="inventory.W001",
            )
    for setting in conf.ALL:
        value = setting.get()
        if not setting.is_right(value):
            yield Error(
                f"{setting.name} must be {setting.must_be}, not {value!r}.",
                hint=f"Remove it to use the default, {setting.default!r}.",
                id="inventory.E001",
            )
    if conf.REDIS.get() == "":
        yield checks.Warning(
            "INVENTORY_REDIS is not set, so items are sold without their locks.",
            hint="Name a function that returns the client of your Redis, such as shop.redis.client "
            "(docs/adopting.md has one). Without it, sales are safe but slower; if that is meant, "
            "silence this check.",
            id="inventory.W003",
        )
    largest, waiting = conf.MAX_BATCH.get(), conf.MAX_WAITING.get()
    are_right = conf.MAX_BATCH.is_right(largest) and conf.MAX_WAITING.is_right(waiting)
    if are_right and largest > waiting:
        yield checks.Warning(
            f"INVENTORY_MAX_BATCH is {largest}, and only {waiting} purchases may wait.",
            hint="No batch can be that large. Raise INVENTORY_MAX_WAITING, or set "
            "INVENTORY_MAX_BATCH to at most as many.",
            id="inventory.W005",
        )


@register("inventory")
def check_database(**_: Any) -> Iterator[CheckMessage]:
    """Find database settings with which purchases would be wrong or slow."""
    database = connections["default"]
    configured = database.settings_dict
    if configured["ENGINE"] == "django.db.backends.dummy":
        return  # no database, for a command that needs none
    if database.vendor != "postgresql":
        yield Error(
            f"The default database is {database.display_name}, and inventory needs PostgreSQL.",
            hint="The guard and the books use PostgreSQL's constraints, triggers and row locks.",
            id="inventory.E002",
        )
        return
    options = configured["OPTIONS"]
    if not options.get("pool"):
        yield checks.Warning(
            "The default database has no connection pool, so each purchase opens a connection.",
            hint='Set DATABASES["default"]["OPTIONS"]["pool"] to True and CONN_MAX_AGE to 0; '
            "install psycopg[pool].",
            id="inventory.W002",
        )
    elif configured["CONN_MAX_AGE"] != 0:
        yield Error(
            "The default database has both a pool and CONN_MAX_AGE, which Django refuses.",
            hint='Set DATABASES["default"]["CONN_MAX_AGE"] to 0.',
            id="inventory.E003",
        )
    if configured["ATOMIC_REQUESTS"]:
        yield Error(
            "ATOMIC_REQUESTS is on: purchases would be answered before their commit.",
            hint='Set DATABASES["default"]["ATOMIC_REQUESTS"] to False, or mark the views that '
            "reserve as non_atomic_requests and silence this check.",
            id="inventory.E004",
        )
    level = options.get("isolation_level", IsolationLevel.READ_COMMITTED)
    if level != IsolationLevel.READ_COMMITTED:
        yield Error(
            "The isolation level of the default database is not READ COMMITTED.",
            hint="Remove OPTIONS['isolation_level']. A purchase waits for the item's row and must "
            "then see what was committed during the wait; other levels show an older state.",
            id="inventory.E005",
        )


@register("inventory")
def check_migrations(**_: Any) -> Iterator[CheckMessage]:
    """Find migrations that are switched off, as some projects do to test faster."""
    if MigrationLoader.migrations_module("inventory")[0] is None:
        yield Error(
            "The migrations of inventory are switched off, so its tables lack their triggers.",
            hint="Remove inventory from MIGRATION_MODULES. The triggers count what is reserved and "
            "compare the books at every commit.",
            id="inventory.E009",
        )


@register(Tags.models)
def check_columns(**_: Any) -> Iterator[CheckMessage]:
    """Find fields added to this app's models that would get no value."""
    for name, given in WRITTEN_IN_SQL.items():
        model = apps.get_model("inventory", name)
        for field in made_by_django(model, given):
            yield Error(
                f"{name}.{field} gets no value: rows of this model are written in SQL.",
                hint="Give the field a db_default instead of a default.",
                obj=model,
                id="inventory.E006",
            )
    reservation = apps.get_model("inventory", "Reservation")
    for field in without_value(reservation, batch.RESERVATION):
        yield Error(
            f"Reservation.{field} has no default, so every reservation would fail.",
            hint="Add a default or null=True.",
            obj=reservation,
            id="inventory.E007",
        )


@register("inventory")
def check_gevent(**_: Any) -> Iterable[CheckMessage]:
    """Find a psycopg that blocks all greenlets while one waits for the database."""
    monkey = sys.modules.get("gevent.monkey")
    if monkey is None or not monkey.is_module_patched("socket"):
        return []
    if psycopg.waiting.wait is not getattr(psycopg.waiting, "wait_c", None):
        return []
    return [
        Error(
            "psycopg was imported before gevent patched the standard library: each wait for the "
            "database blocks the whole process.",
            hint="Call gevent.monkey.patch_all() before any other import. Gunicorn's gevent worker "
            "does, unless its configuration or --preload imports Django first.",
            id="inventory.E008",
        )
    ]
