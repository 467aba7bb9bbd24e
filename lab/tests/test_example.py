"""The example of docs/adopting.md: another shop, with another order, on the same stock."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import psycopg
import pytest
import redis
from django.conf import settings
from django.db import connection

from lab import environment

EXAMPLE = environment.PROJECT / "docs" / "example"

REDIS_DATABASE = 15
"""The last one, which no worker of the tests has."""


@pytest.fixture
def manage(db):
    """Runs commands of the example against a database of its own on the tests' server."""
    name = f"example_{os.getpid()}"
    server = {
        key: connection.settings_dict[upper]
        for key, upper in (
            ("host", "HOST"),
            ("port", "PORT"),
            ("user", "USER"),
            ("password", "PASSWORD"),
        )
    }
    # Its items have the ids of the shop's, whose hints must not be read.
    own_redis = f"{settings.REDIS_URL.rpartition('/')[0]}/{REDIS_DATABASE}"
    redis.Redis.from_url(own_redis).flushdb()
    url = f"postgresql://{server['user']}:{server['password']}@/{name}"
    variables = {
        **os.environ,
        "DATABASE_URL": f"{url}?host={server['host']}&port={server['port']}",
        "REDIS_URL": own_redis,
    }

    def run(*words: str) -> str:
        command = [sys.executable, str(EXAMPLE / "manage.py"), *words]
        done = subprocess.run(command, env=variables, capture_output=True, text=True, timeout=90)
        assert done.returncode == 0, done.stderr
        return done.stdout

    with psycopg.connect(dbname="postgres", autocommit=True, **server) as admin:
        admin.execute(f'CREATE DATABASE "{name}"')
        yield run
        admin.execute(f'DROP DATABASE "{name}" WITH (FORCE)')


def test_another_shop_sells_its_seats_once_each(manage):
    assert "No changes detected" in manage("makemigrations", "--check")
    manage("migrate", "--verbosity", "0")
    told = manage("rush")
    assert "'Granted': 50" in told
    assert "'SoldOut': 150" in told
    assert "50 bookings, 20 paid, 0 seats left, problems: []" in told
    assert sorted(map(int, re.findall(r"\d+", " ".join(re.findall(r"\[(.*?)\]", told))))) == list(
        range(1, 51)
    ), "every booking was followed up, once"


def test_the_pieces_shown_in_the_guide_are_those_of_the_example():
    guide = (environment.PROJECT / "docs" / "adopting.md").read_text()
    code = "\n".join(path.read_text() for path in EXAMPLE.rglob("*.py"))
    shown = re.findall(r"```python title=example\n(.*?)```", guide, re.DOTALL)
    assert len(shown) >= 3
    for piece in shown:
        assert piece.strip() in code
