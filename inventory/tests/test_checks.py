"""Each system check reports its problem under its own id, with a hint."""

from __future__ import annotations

import subprocess
import sys
from typing import Any
from unittest import mock

import pytest
from django.core import checks
from django.db import connections, models
from redis import Redis

from development.needs import GEVENT, needs
from inventory import conf
from inventory.models import OutboxMessage, Reservation
from inventory.redis import given_client
from inventory.selling.queue import Seller, seller
from inventory.tests.helpers import more_fields


def found(**how: Any) -> list[str]:
    """Return the ids that this app's checks report."""
    messages = checks.run_checks(tags=["inventory", "models"], **how)
    ours = [message for message in messages if str(message.id).startswith("inventory.")]
    assert all(message.hint for message in ours)
    return [str(message.id) for message in ours]


def test_checks_pass_for_a_correct_project():
    assert found() == []
    assert found(include_deployment_checks=True) == []


def test_check_suggests_the_name_of_a_misspelt_setting(settings):
    settings.INVENTORY_MAX_WAITINGS = 7
    assert found() == ["inventory.W001"]
    [message] = checks.run_checks(tags=["inventory"])
    assert message.hint == "Did you mean INVENTORY_MAX_WAITING?"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("INVENTORY_MAX_BATCH", 0),
        ("INVENTORY_MAX_BATCH", "256"),
        ("INVENTORY_MAX_WAITING", True),
        ("INVENTORY_MAX_WAIT", -1),
        ("INVENTORY_REDIS", "redis://127.0.0.1:6379/0"),
        ("INVENTORY_REDIS", "inventory.tests.own_redis.clients"),
        ("INVENTORY_REDIS", None),
        ("INVENTORY_SELLER", "Seller"),
        ("INVENTORY_SELLER", "inventory.selling.queue.Sellers"),
        ("INVENTORY_SELLER", "inventory.selling.no_such_module.Seller"),
        ("INVENTORY_SELLER", None),
    ],
)
def test_check_reports_an_invalid_setting(settings, name, value):
    setattr(settings, name, value)
    assert found() == ["inventory.E001"]


@pytest.mark.parametrize(("most", "expected"), [(3, []), (2, ["inventory.W005"])])
def test_check_reports_a_batch_larger_than_the_queue(settings, most, expected):
    settings.INVENTORY_MAX_BATCH, settings.INVENTORY_MAX_WAITING = 3, most
    assert found() == expected


@pytest.mark.parametrize("setting", conf.ALL, ids=lambda setting: setting.name)
def test_settings_have_valid_defaults_and_empty_means_default(settings, setting):
    delattr(settings, setting.name) if hasattr(settings, setting.name) else None
    assert setting.is_right(setting.get())
    setattr(settings, setting.name, "")
    assert setting.get() == setting.default
    assert "inventory.E001" not in found()


def test_check_reports_that_no_redis_is_given(settings):
    settings.INVENTORY_REDIS = ""
    assert found() == ["inventory.W003"]


def test_check_reports_another_database_than_postgresql(settings):
    with mock.patch.object(connections["default"], "vendor", "sqlite"):
        assert found() == ["inventory.E002"]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"ENGINE": "django.db.backends.dummy"}, ""),
        ({"OPTIONS": {}}, "inventory.W002"),
        ({"OPTIONS": {}, "CONN_MAX_AGE": 60}, "inventory.W002"),
        ({"CONN_MAX_AGE": 60}, "inventory.E003"),
        ({"CONN_MAX_AGE": None}, "inventory.E003"),
        ({"ATOMIC_REQUESTS": True}, "inventory.E004"),
        ({"OPTIONS": {"pool": True, "isolation_level": 3}}, "inventory.E005"),
    ],
)
def test_check_reports_unsafe_or_slow_database_options(options, expected):
    with mock.patch.dict(connections["default"].settings_dict, options):
        assert found() == [expected] * bool(expected)


def test_check_reports_tables_without_their_triggers(settings):
    settings.MIGRATION_MODULES = {"inventory": None}
    assert found() == ["inventory.E009"]


@pytest.mark.django_db(transaction=True)
def test_check_reports_an_added_field_that_sql_leaves_out():
    with more_fields(OutboxMessage, colour=models.CharField(max_length=5, default="red")):
        assert found() == ["inventory.E006"]
    with more_fields(OutboxMessage, colour=models.CharField(max_length=5, db_default="red")):
        assert found() == []


@pytest.mark.django_db(transaction=True)
def test_check_reports_a_reservation_field_without_a_value():
    field: Any = models.IntegerField(default=1)
    with more_fields(Reservation, number=field):
        assert found() == []
        field.default = models.NOT_PROVIDED
        field.__dict__.pop("_get_default", None)
        assert found() == ["inventory.E007"]


LATE_PATCH = """
import sys
import psycopg
from gevent import monkey
if sys.argv[1] == "late":
    monkey.patch_all()
import django
from django.conf import settings
settings.configure(INSTALLED_APPS=["inventory"])
django.setup()
from inventory.checks import check_gevent
print([each.id for each in check_gevent()])
"""


@needs(GEVENT)
@pytest.mark.parametrize(("when", "expected"), [("late", "['inventory.E008']"), ("never", "[]")])
def test_check_reports_a_psycopg_that_blocks_all_greenlets(when, expected):
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", LATE_PATCH, when],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert done.stdout.strip() == expected
    # A server runs no checks, so the log says so too.
    assert ("psycopg was imported before gevent" in done.stderr) == (when == "late")


class Experiment(Seller):
    """A seller of a project's own."""


def elsewhere() -> Redis:
    """Return a client of another Redis."""
    return Redis(port=1)


def test_settings_are_read_when_they_are_used(settings):
    selling, redis = seller(), given_client()
    assert type(selling) is Seller
    settings.INVENTORY_MAX_BATCH = 3
    settings.INVENTORY_REDIS = f"{__name__}.elsewhere"
    assert (conf.MAX_BATCH.get(), seller() is selling) == (3, False)
    made: Any = given_client()
    assert made is not redis
    assert made.connection_pool.connection_kwargs["port"] == 1
    settings.INVENTORY_SELLER = f"{__name__}.Experiment"
    assert found() == []
    assert type(seller()) is Experiment
