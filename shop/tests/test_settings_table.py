"""One table of all settings: what production does without each, and with nonsense in it."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from django.conf import settings

from shop import environment
from shop.tests.test_environment import PRODUCTION

REFUSED, TAKEN = "production does not start, and says which setting it is", "it is taken as it is"
NEEDED = "production does not start without it"

TABLE = {
    **dict.fromkeys(("SECRET_KEY", "PSP_URL", "PSP_WEBHOOK_SECRET"), (NEEDED, REFUSED)),
    "DATABASE_URL": (NEEDED, "production does not start"),
    **dict.fromkeys(
        ("REDIS_URL", "CELERY_BROKER_URL", "PSP_KEY", "ALLOWED_HOSTS"), (NEEDED, TAKEN)
    ),
    **dict.fromkeys(("SHOP_HTTPS", "HSTS_SUBDOMAINS", "HSTS_PRELOAD"), ("0 or 1", REFUSED)),
    **dict.fromkeys(("SHOP_DEMO", "PSP_HTTPS"), ("0 or 1", REFUSED)),
    **dict.fromkeys(("SHOP_PORT", "WEB_CONCURRENCY", "WEB_CONNECTIONS"), ("a number", REFUSED)),
    **dict.fromkeys(("WEB_READ_TIMEOUT", "METRICS_PORT"), ("a number", REFUSED)),
    **dict.fromkeys(("DB_POOL_SIZE", "DB_POOL_MIN", "DB_COMMIT_SECONDS"), ("a number", REFUSED)),
    **dict.fromkeys(("RATE_LIMIT", "HSTS_SECONDS", "EMAIL_PORT"), ("a number", REFUSED)),
    **dict.fromkeys(("INVENTORY_MAX_BATCH", "INVENTORY_MAX_WAITING"), ("a number", REFUSED)),
    **dict.fromkeys(("INVENTORY_MAX_WAIT",), ("a number", REFUSED)),
    **dict.fromkeys(("SHOP_CURRENCY", "LOG_FORMAT", "LOG_LEVEL"), ("one of several", REFUSED)),
    **dict.fromkeys(("OTEL_TRACES_EXPORTER",), ("one of several", REFUSED)),
    **dict.fromkeys(("PUBLIC_URL", "SHOP_BIND", "PGOPTIONS"), ("as the operator wants", TAKEN)),
    **dict.fromkeys(("SHOP_NAME",), ("as the operator wants", TAKEN)),
    **dict.fromkeys(("CSRF_TRUSTED_ORIGINS", "METRICS_FOLDER"), ("as the operator wants", TAKEN)),
    **dict.fromkeys(("EMAIL_HOST", "EMAIL_HOST_USER"), ("as the operator wants", TAKEN)),
    **dict.fromkeys(("EMAIL_HOST_PASSWORD",), ("as the operator wants", TAKEN)),
    **dict.fromkeys(("DEFAULT_FROM_EMAIL", "SENTRY_DSN"), ("as the operator wants", TAKEN)),
    **dict.fromkeys(("OTEL_TRACES_SAMPLER", "OTEL_TRACES_SAMPLER_ARG"), ("the library's", TAKEN)),
}
"""What each setting needs to be, and what nonsense in it does."""

DEMO = {
    "RATE_LIMIT": ("SHOP_RATE_LIMIT", 0),
    "SHOP_HTTPS": ("HTTPS", False),
    "HSTS_SECONDS": ("SECURE_HSTS_SECONDS", 0),
    "SHOP_CURRENCY": ("CURRENCY", "CNY"),
    "INVENTORY_MAX_BATCH": ("INVENTORY_MAX_BATCH", 256),
    "INVENTORY_MAX_WAITING": ("INVENTORY_MAX_WAITING", 5_000),
    "INVENTORY_MAX_WAIT": ("INVENTORY_MAX_WAIT", 10),
}
"""What a demonstration uses, where production's default is another or people build on it."""

WALK = """
import importlib, json, logging.config, os, runpy, sys
from shop import environment, settings
from shop.operating import safe_start, tracing
found = {}
for name, value in json.load(sys.stdin).items():
    before = os.environ.get(name)
    os.environ[name] = value
    try:
        importlib.reload(settings)
        logging.config.dictConfig(settings.LOGGING)
        runpy.run_path("gunicorn.conf.py")
        tracing.start("walk")
        found[name] = chr(10).join(safe_start.problems())
    except Exception as error:
        found[name] = f"{type(error).__name__}: {error}"
    finally:
        os.environ.pop(name)
        if before is not None:
            os.environ[name] = before
print(json.dumps(found))
"""


def walk(values: dict[str, str]) -> dict[str, str]:
    """Start production in one process with each of these values; return what it says."""
    done = subprocess.run(
        [sys.executable, "-c", WALK],
        cwd=environment.PROJECT,
        env={"PATH": os.environ["PATH"], "DJANGO_SETTINGS_MODULE": environment.SETTINGS}
        | PRODUCTION,
        input=json.dumps(values),
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    found: dict[str, str] = json.loads(done.stdout.splitlines()[-1])
    return found


def test_every_setting_is_in_the_table() -> None:
    assert TABLE.keys() == {variable.name for variable in environment.VARIABLES}


def test_nonsense_in_a_setting_does_what_the_table_says() -> None:
    found = walk(dict.fromkeys(TABLE, "nonsense"))
    for name, (_, consequence) in TABLE.items():
        assert bool(found[name]) == (consequence != TAKEN), (name, found[name])
        assert consequence != REFUSED or name in found[name], (name, found[name])


def test_without_a_setting_production_does_what_the_table_says() -> None:
    found = walk(dict.fromkeys(TABLE, ""))
    for name, (without, _) in TABLE.items():
        assert bool(found[name]) == (without == NEEDED), (name, found[name])
        assert without != NEEDED or name in found[name]


@pytest.mark.parametrize("name", DEMO)
def test_a_demonstration_has_the_tables_default(name: str) -> None:
    setting, value = DEMO[name]
    assert getattr(settings, setting) == value
