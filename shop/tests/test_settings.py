"""Settings from the environment: clear errors, no unsafe start."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from django.core.checks import run_checks
from django.core.exceptions import ImproperlyConfigured

from shop import environment
from shop.background import config
from shop.payments import http_provider, settlement
from shop.tests.processes import run, run_python


def manage(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a `manage.py` command with only these variables set."""
    ours = {variable.name for variable in environment.VARIABLES}
    ours |= {"DJANGO_SETTINGS_MODULE", "SHOP_DEMO"}
    inherited = {name: value for name, value in os.environ.items() if name not in ours}
    return run(sys.executable, "manage.py", *arguments, env={**inherited, **variables})


@pytest.mark.parametrize(
    ("command", "variables"),
    [
        ("migrate", {"DATABASE_URL": "postgresql://shop@127.0.0.1:1/shop"}),
        ("check --deploy", {}),
    ],
)
def test_production_is_a_real_database_or_a_deployment_check(command, variables):
    result = manage(*command.split(), **variables)
    assert result.returncode == 1
    assert "SECRET_KEY" in result.stderr


@pytest.mark.parametrize(("given", "limit"), [("", "10s"), ("-c lock_timeout=5s", "5s")])
def test_database_sessions_have_time_outs_of_shop_or_operator(given, limit):
    show = """
import django
django.setup()
from django.db import connection
with connection.cursor() as cursor:
    for name in ("lock_timeout", "idle_in_transaction_session_timeout"):
        cursor.execute(f"SHOW {name}")
        print(*cursor.fetchone())
"""
    names = {"PGOPTIONS": given, "DJANGO_SETTINGS_MODULE": "shop.settings"}
    assert run_python(show, **(PRODUCTION | os.environ | names)).stdout.split() == [limit, "15s"]


PRODUCTION = {
    "SHOP_DEMO": "0",
    "SHOP_PAYMENTS": "1",
    "SECRET_KEY": sha256(b"signs nothing").hexdigest(),
    "ALLOWED_HOSTS": "shop.example",
    "DATABASE_URL": "postgresql://shop@127.0.0.1:1/shop",
    "REDIS_URL": "redis://127.0.0.1:1/0",
    "CELERY_BROKER_URL": "redis://127.0.0.1:1/1",
    "PSP_URL": "https://psp.example",
    "PSP_KEY": "opens nothing",
    "PSP_WEBHOOK_SECRET": sha256(b"verifies nothing").hexdigest(),
}

ALL_NEEDED = PRODUCTION.keys() - {"SHOP_DEMO", "SHOP_PAYMENTS"}
"""Written out here, so that none can be dropped from the shop's own list unseen."""

STARTS = {
    "wsgi": "import shop.wsgi",
    "celery": "import shop.celery as m; m.app.WorkController()",
    "manage": "import sys, manage; sys.argv = ['manage.py', 'migrate']; manage.main()",
    "check": "import sys, manage; sys.argv = ['manage.py', 'check', '--deploy']; manage.main()",
}


def start(how: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Start a process of production with only these variables set."""
    return run_python(STARTS[how], **variables)


UNSAFE = [
    ("SECRET_KEY", "short"),
    ("SECRET_KEY", "ab" * 40),
    ("SECRET_KEY", "django-insecure-" + PRODUCTION["SECRET_KEY"]),
    ("PSP_WEBHOOK_SECRET", "x"),
    ("PSP_WEBHOOK_SECRET", "x" * 64),
    ("ALLOWED_HOSTS", "*"),
    ("ALLOWED_HOSTS", "shop.example, *"),
    ("PSP_URL", "http://psp.example"),
    ("PSP_URL", "psp.example"),
    ("PSP_URL", "http://127.0.0.1.example"),
    ("PSP_URL", "http://10.0.0.5"),
    ("REDIS_URL", "127.0.0.1:6379"),
    ("REDIS_URL", "redis://host:port/0"),
    ("REDIS_URL", "redis+sentinel://host:26379"),
    ("REDIS_URL", "redis+ring://host:6379"),
    ("REDIS_URL", "redis+cluster://"),
    ("REDIS_URL", "redis+cluster://one:no,two"),
]


@pytest.mark.parametrize(
    "how",
    [pytest.param(how, marks=[] if how == "wsgi" else [pytest.mark.long]) for how in STARTS],
)
def test_start_refuses_missing_or_unsafe_settings_and_names_all(how: str) -> None:
    missing = start(how, SHOP_DEMO="0", SHOP_PAYMENTS="1")
    unsafe = start(how, **{**PRODUCTION, **dict(UNSAFE)})
    assert 0 not in (missing.returncode, unsafe.returncode)
    assert "These environment variables must be set" in missing.stderr
    assert [name for name in ALL_NEEDED if name not in missing.stderr] == []
    assert [name for name in dict(UNSAFE) if f"{name} must" not in unsafe.stderr] == []


def test_production_passes_djangos_own_deployment_checks() -> None:
    result = manage(
        "check", "--deploy", "--fail-level", "WARNING", SHOP_LANGUAGES="en", **PRODUCTION
    )
    assert result.returncode == 0, result.stderr


def test_secret_may_be_a_files_content(monkeypatch, tmp_path):
    (tmp_path / "secret").write_text("from the file\n")
    monkeypatch.delenv("SECRET_KEY", raising=False)
    monkeypatch.setenv("SECRET_KEY_FILE", str(tmp_path / "secret"))
    assert environment.is_set("SECRET_KEY")
    assert environment.text("SECRET_KEY") == "from the file"
    monkeypatch.setenv("SECRET_KEY", "from the environment")
    assert environment.text("SECRET_KEY") == "from the environment"


def test_secret_file_that_cannot_be_read_is_named(monkeypatch, tmp_path):
    monkeypatch.delenv("SECRET_KEY", raising=False)
    monkeypatch.setenv("SECRET_KEY_FILE", str(tmp_path / "nothing"))
    with pytest.raises(ImproperlyConfigured, match=r"SECRET_KEY_FILE.*nothing"):
        environment.text("SECRET_KEY")


TAKEN = {
    "CELERY_BROKER_URL",
    "PSP_KEY",
    "PUBLIC_URL",
    "SHOP_BIND",
    "PGOPTIONS",
    "SHOP_NAME",
    "ALLOWED_HOSTS",
    "CSRF_TRUSTED_ORIGINS",
    "METRICS_FOLDER",
    "ALIVE_FILE",
    "SENTRY_DSN",
    "EMAIL_HOST",
    "EMAIL_HOST_USER",
    "EMAIL_HOST_PASSWORD",
    "DEFAULT_FROM_EMAIL",
    "OTEL_TRACES_SAMPLER",
    "OTEL_TRACES_SAMPLER_ARG",
    "DRAND_URL",
    "PSP_PUBLIC_KEY",
    "WECHAT_MERCHANT",
    "WECHAT_APP",
    "WECHAT_CERTIFICATE",
    "WECHAT_PRIVATE_KEY",
    "WECHAT_PUBLIC_KEY",
    "WECHAT_PUBLIC_KEY_ID",
}
"""Variables of which any text is taken as it is; nonsense in others keeps production from starting,
which names the variable."""

DEFAULTS: dict[str, tuple[object, object]] = {
    "SHOP_RATE_LIMIT": (20, 0),
    "CURRENCY": (environment.own("defaults")["SHOP_CURRENCY"],) * 2,
    "SECURE_SSL_REDIRECT": (True, False),
    "SECURE_HSTS_SECONDS": (3600, 0),
    "ALLOWED_HOSTS": ([], ["127.0.0.1", "localhost"]),
    "PUBLIC_URL": ("", "http://127.0.0.1:8000"),
}
"""Settings of production, and of a demonstration, where no variable is set."""

READ = """
import json, sys
from importlib import import_module
module = import_module(sys.argv[1])
print(json.dumps({name: getattr(module, name) for name in json.load(sys.stdin)}))
"""


def printed(code: str, given: object, *arguments: str, **variables: str) -> Any:
    """Run code in a process that has only these variables; return what it prints."""
    done = run_python(code, *arguments, given=json.dumps(given), **variables)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


WALK = """
import importlib, json, logging.config, os, runpy, sys
from unittest import mock
from shop import environment, settings
from shop.operating import safe_start, telemetry
found = []
for given in json.load(sys.stdin):
    with mock.patch.dict(os.environ, given):
        try:
            importlib.reload(settings)
            logging.config.dictConfig(settings.LOGGING)
            runpy.run_path("gunicorn.conf.py")
            telemetry.trace("walk")
            found.append(chr(10).join(safe_start.problems()))
        except Exception as error:
            found.append(f"{type(error).__name__}: {error}")
print(json.dumps(found))
"""


def says(*given: dict[str, str]) -> list[str]:
    """Start production with each of these values besides those it needs; return what it says."""
    return printed(WALK, given, DJANGO_SETTINGS_MODULE=environment.SETTINGS, **PRODUCTION)  # type: ignore[no-any-return]


def test_production_names_each_unsafe_value() -> None:
    said = says(*({name: value} for name, value in UNSAFE))
    for (name, value), text in zip(UNSAFE, said, strict=True):
        assert text.startswith(f"{name} must"), value


@pytest.mark.parametrize(
    ("size", "kept", "refused"),
    [("2", "2", False), ("2", "3", True), ("0", "0", True), ("1", "", False)],
)
def test_pool_with_a_minimum_above_its_maximum_is_refused(size, kept, refused):
    [said] = says({"DB_POOL_SIZE": size, "DB_POOL_MIN": kept})
    assert said.startswith("DB_POOL_SIZE must be at least") == refused


@pytest.mark.parametrize("limit", [None, 45, 44])
def test_mail_that_may_take_longer_than_its_task_is_reported(limit, settings):
    settings.EMAIL_TIMEOUT = limit
    found = [check.id for check in run_checks() if check.id == "shop.E005"]
    assert found == ([] if limit == 44 else ["shop.E005"])


@pytest.mark.parametrize(
    ("name", "seconds"),
    [
        ("task_soft_time_limit", 60),
        ("task_time_limit", 300),
        ("VISIBILITY", 60),
    ],
)
def test_celery_limit_that_is_not_below_the_next_is_reported(name, seconds, monkeypatch):
    monkeypatch.setattr(config, name, seconds)
    assert "shop.E005" in [check.id for check in run_checks()]


def test_mail_interval_longer_than_its_count_is_kept_is_reported(settings):
    for seconds, found in ((86_400, ["shop.E005"]), (86_399, [])):
        settings.SHOP_MAIL_INTERVAL = seconds
        assert [check.id for check in run_checks() if check.id == "shop.E005"] == found


def test_sweep_waits_longer_than_a_payment_call_takes():
    assert settlement.REQUEST.total_seconds() > http_provider.MAX_SECONDS


def test_options_of_the_databases_address_win_over_the_shops():
    address = PRODUCTION["DATABASE_URL"] + "?options=-c%20search_path%3Dshop&commit_within=7"
    module = "shop.settings"
    found = printed(READ, ["DATABASES"], module, **(PRODUCTION | {"DATABASE_URL": address}))
    options = found["DATABASES"]["default"]["OPTIONS"]
    assert (options["options"], options["commit_within"]) == ("-c search_path=shop", 7)


def test_production_accepts_safe_settings() -> None:
    safe = [
        {},
        {"PSP_URL": "http://psp.example", "PSP_HTTPS": "0"},
        {"PSP_URL": "http://127.0.0.1:9000"},
        {"PSP_URL": "http://[::1]:9000"},
        {"PSP_URL": "http://localhost:9000"},
        {"SECRET_KEY": "0123456789abcdef" * 4},
    ]
    assert says(*safe) == [""] * len(safe)


NAMES = [variable.name for variable in environment.VARIABLES]


@pytest.mark.parametrize("nonsense", ["nonsense", "-1"])
def test_production_does_not_start_with_nonsense_and_names_it(nonsense: str) -> None:
    said = dict(zip(NAMES, says(*({name: nonsense} for name in NAMES)), strict=True))
    assert {name for name, text in said.items() if not text} == TAKEN
    # The database's address is read by a library.
    assert all(name in said[name] for name in said.keys() - TAKEN - {"DATABASE_URL"})


def test_production_starts_with_only_the_required_settings() -> None:
    said = dict(zip(NAMES, says(*({name: ""} for name in NAMES)), strict=True))
    assert {name for name, text in said.items() if text} == ALL_NEEDED
    assert all(name in said[name] for name in ALL_NEEDED)


@pytest.mark.parametrize("demo", [False, True])
def test_settings_of_demo_and_production_differ(demo: bool, tmp_path: Path) -> None:
    module = "development.settings" if demo else environment.SETTINGS
    found = printed(READ, [*DEFAULTS], module, SHOP_DATA=str(tmp_path))
    assert found == {name: default[demo] for name, default in DEFAULTS.items()}
