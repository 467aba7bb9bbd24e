"""One table of all settings: what production does without each, and with nonsense in it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from shop import environment
from shop.tests.processes import run_python
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
    **dict.fromkeys(("SHOP_PAGES", "SHOP_PAYMENTS"), ("0 or 1", REFUSED)),
    **dict.fromkeys(("SHOP_PORT", "WEB_CONCURRENCY", "WEB_CONNECTIONS"), ("a number", REFUSED)),
    **dict.fromkeys(("WEB_READ_TIMEOUT", "METRICS_PORT"), ("a number", REFUSED)),
    **dict.fromkeys(("DB_POOL_SIZE", "DB_POOL_MIN", "DB_COMMIT_SECONDS"), ("a number", REFUSED)),
    **dict.fromkeys(("RATE_LIMIT", "HSTS_SECONDS", "EMAIL_PORT"), ("a number", REFUSED)),
    **dict.fromkeys(("INVENTORY_MAX_BATCH", "INVENTORY_MAX_WAITING"), ("a number", REFUSED)),
    **dict.fromkeys(("INVENTORY_MAX_WAIT",), ("a number", REFUSED)),
    **dict.fromkeys(("SHOP_CURRENCY", "LOG_FORMAT", "LOG_LEVEL"), ("one of several", REFUSED)),
    "SHOP_LANGUAGES": ("one or several", REFUSED),
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

OWN = "its own"

CHOSEN = {variable.name: variable.default for variable in environment.VARIABLES}
OPTIONS = ("SHOP_PAGES", "SHOP_PAYMENTS", "SHOP_LANGUAGES")
"""What each shop may choose for itself."""

DEFAULTS: dict[str, tuple[str, object, object]] = {
    "DATABASE_URL": ("", NEEDED, ""),
    "REDIS_URL": ("REDIS_URL", NEEDED, ""),
    "CELERY_BROKER_URL": ("", NEEDED, ""),
    "PSP_URL": ("PSP_URL", NEEDED, ""),
    "PSP_KEY": ("PSP_KEY", NEEDED, OWN),
    "PSP_WEBHOOK_SECRET": ("PSP_WEBHOOK_SECRET", NEEDED, OWN),
    "PSP_HTTPS": ("", "1", "1"),
    "SHOP_DEMO": ("", "0", "0"),
    "SHOP_PORT": ("", "8000", "8000"),
    "PUBLIC_URL": ("PUBLIC_URL", "", "http://127.0.0.1:8000"),
    "SHOP_BIND": ("", "127.0.0.1", "127.0.0.1"),
    "WEB_CONCURRENCY": ("", "2", "2"),
    "WEB_CONNECTIONS": ("", "4000", "4000"),
    "WEB_READ_TIMEOUT": ("", "10", "10"),
    "DB_POOL_SIZE": ("", "16", "16"),
    "DB_POOL_MIN": ("", "1", "1"),
    "DB_COMMIT_SECONDS": ("", "5", "5"),
    "PGOPTIONS": ("", "", ""),
    "SHOP_NAME": ("SHOP_NAME", "Flash sale", "Flash sale"),
    **{name: ("", CHOSEN[name], CHOSEN[name]) for name in OPTIONS},
    "SHOP_CURRENCY": ("CURRENCY", "CNY", "CNY"),
    "RATE_LIMIT": ("SHOP_RATE_LIMIT", 20, 0),
    "INVENTORY_MAX_BATCH": ("INVENTORY_MAX_BATCH", 256, 256),
    "INVENTORY_MAX_WAITING": ("INVENTORY_MAX_WAITING", 5_000, 5_000),
    "INVENTORY_MAX_WAIT": ("INVENTORY_MAX_WAIT", 10, 10),
    "SECRET_KEY": ("SECRET_KEY", NEEDED, OWN),
    "ALLOWED_HOSTS": ("ALLOWED_HOSTS", NEEDED, ["127.0.0.1", "localhost"]),
    "CSRF_TRUSTED_ORIGINS": ("CSRF_TRUSTED_ORIGINS", [], []),
    "SHOP_HTTPS": ("SECURE_SSL_REDIRECT", True, False),
    "HSTS_SECONDS": ("SECURE_HSTS_SECONDS", 3_600, 0),
    "HSTS_SUBDOMAINS": ("SECURE_HSTS_INCLUDE_SUBDOMAINS", False, False),
    "HSTS_PRELOAD": ("SECURE_HSTS_PRELOAD", False, False),
    "EMAIL_HOST": ("EMAIL_HOST", "", ""),
    "EMAIL_PORT": ("EMAIL_PORT", 587, 587),
    "EMAIL_HOST_USER": ("EMAIL_HOST_USER", "", ""),
    "EMAIL_HOST_PASSWORD": ("EMAIL_HOST_PASSWORD", "", ""),
    "DEFAULT_FROM_EMAIL": ("DEFAULT_FROM_EMAIL", "shop@localhost", "shop@localhost"),
    "METRICS_FOLDER": ("", "", ""),
    "METRICS_PORT": ("", "9101", "9101"),
    "LOG_FORMAT": ("", "", ""),
    "LOG_LEVEL": ("", "INFO", "INFO"),
    "OTEL_TRACES_EXPORTER": ("", "", ""),
    "OTEL_TRACES_SAMPLER": ("", "parentbased_traceidratio", "parentbased_traceidratio"),
    "OTEL_TRACES_SAMPLER_ARG": ("", "0.01", "0.01"),
    "SENTRY_DSN": ("", "", ""),
}
"""Of each variable, the setting that it becomes (empty: processes read it themselves), and the
default in production and in a demonstration, where passwords of its own are made."""

READ = """
import json, sys
from importlib import import_module
from shop import environment
module = import_module(sys.argv[1])
print(json.dumps({
    name: getattr(module, setting) if setting else environment.text(name)
    for name, setting in json.load(sys.stdin).items()
}))
"""


def run(code: str, given: object, *arguments: str, **variables: str) -> dict[str, object]:
    """Run code in a process that has only these variables; return what it prints."""
    done = run_python(code, *arguments, given=json.dumps(given), **variables)
    assert done.returncode == 0, done.stderr
    found: dict[str, object] = json.loads(done.stdout.splitlines()[-1])
    return found


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


def walk(values: dict[str, str]) -> dict[str, object]:
    """Start production in one process with each of these values; return what it says."""
    return run(WALK, values, DJANGO_SETTINGS_MODULE=environment.SETTINGS, **PRODUCTION)


def test_every_setting_is_in_the_table() -> None:
    assert TABLE.keys() == DEFAULTS.keys() == {variable.name for variable in environment.VARIABLES}


@pytest.mark.parametrize("nonsense", ["nonsense", "-1"])
def test_nonsense_in_a_setting_does_what_the_table_says(nonsense: str) -> None:
    found = walk(dict.fromkeys(TABLE, nonsense))
    for name, (_, consequence) in TABLE.items():
        assert bool(found[name]) == (consequence != TAKEN), (name, found[name])
        assert consequence != REFUSED or name in str(found[name]), (name, found[name])


def test_without_a_setting_production_does_what_the_table_says() -> None:
    found = walk(dict.fromkeys(TABLE, ""))
    for name, (without, _) in TABLE.items():
        assert bool(found[name]) == (without == NEEDED), (name, found[name])
        assert without != NEEDED or name in str(found[name])


@pytest.mark.parametrize("demo", [False, True])
def test_each_default_is_the_tables(demo: bool, tmp_path: Path) -> None:
    module = environment.SETTINGS
    if demo:
        module = "development.settings"
    given = {name: setting for name, (setting, _, _) in DEFAULTS.items()}
    for name, value in run(READ, given, module, SHOP_DATA=str(tmp_path)).items():
        default = DEFAULTS[name][1 + demo]
        if default == OWN:
            assert value
        else:
            # Without what it needs, production does not start: see above.
            assert value == ([] if name == "ALLOWED_HOSTS" else "") or default != NEEDED
            assert value == default or default == NEEDED, name
