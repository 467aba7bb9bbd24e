"""`python -m lab.psp --bind 127.0.0.1:8790`: prepare the provider's database and serve."""

from __future__ import annotations

import os
import sys
import time
from typing import Any
from urllib.parse import urlsplit

import django
import psycopg
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.core.management import call_command
from psycopg import sql

from lab.psp.settings import DATABASE_URL

STARTUP_TIMEOUT = 30
"""Seconds that the database may take to start."""


def main() -> None:
    """Prepare the database, then become gunicorn; further arguments are gunicorn's.

    Raises:
        SystemExit: a secret is missing, or the database does not answer.
    """
    # The provider's own, even if the environment names the shop's.
    os.environ["DJANGO_SETTINGS_MODULE"] = "lab.psp.settings"
    django.setup()
    try:
        _refuse_unsafe_start()
        _prepare_database()
    except (ImproperlyConfigured, psycopg.Error) as error:
        raise SystemExit(f"error: {error}") from error
    command = ["gunicorn", "-c", "python:lab.psp.gunicorn_settings", *sys.argv[1:], "lab.psp.wsgi"]
    os.execv(sys.executable, [sys.executable, "-m", *command])


def _refuse_unsafe_start() -> None:
    from lab.psp import behaviour

    missing = [name for name in ("PSP_KEY", "PSP_WEBHOOK_SECRET") if not getattr(settings, name)]
    if missing:
        raise ImproperlyConfigured(f"Not in demo mode, so these must be set: {', '.join(missing)}.")
    behaviour.default()


def _prepare_database() -> None:
    """Create the database and its tables if they are missing; one process at a time does."""
    name = urlsplit(DATABASE_URL).path.removeprefix("/")
    with _server() as server:
        server.execute("SELECT pg_advisory_lock(hashtext('psp'))")
        known = server.execute("SELECT 1 FROM pg_database WHERE datname = %s", [name])
        if known.fetchone() is None:
            server.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        call_command("migrate", verbosity=0, interactive=False)


def _server() -> psycopg.Connection[tuple[Any, ...]]:
    """Connect to the server's own database; wait for a server that is starting."""
    deadline = time.monotonic() + STARTUP_TIMEOUT
    while True:
        try:
            return psycopg.connect(_beside(DATABASE_URL, "postgres"), autocommit=True)
        except psycopg.OperationalError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.2)


def _beside(url: str, database: str) -> str:
    return urlsplit(url)._replace(path=f"/{database}").geturl()


if __name__ == "__main__":
    main()
