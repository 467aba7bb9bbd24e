"""Settings from the environment: one table, clear errors, no unsafe start."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from hashlib import sha256
from pathlib import Path

import pytest
from django.core.exceptions import ImproperlyConfigured

from shop import environment
from shop.tests.processes import run_python


def manage(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a `manage.py` command with only these variables set."""
    ours = {variable.name for variable in environment.VARIABLES}
    ours |= {"DJANGO_SETTINGS_MODULE", "SHOP_DEMO"}
    inherited = {name: value for name, value in os.environ.items() if name not in ours}
    return subprocess.run(
        [sys.executable, "manage.py", *arguments],
        cwd=environment.PROJECT,
        env={**inherited, **variables},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def test_every_variable_stands_once_in_the_table_and_is_read_somewhere():
    names = [variable.name for variable in environment.VARIABLES]
    assert len(names) == len(set(names))
    sources = [*environment.PROJECT.glob("*.py")]
    for package in ("shop", "inventory"):
        sources += (environment.PROJECT / package).rglob("*.py")
    readers = "\n".join(path.read_text() for path in sources if path.name != "environment.py")
    for name in names:
        assert re.search(rf"[\"']{name}[\"']", readers), f"{name} is read nowhere"


def test_a_real_database_means_production_unless_the_demo_is_asked_for():
    result = manage("migrate", DATABASE_URL="postgresql://shop@127.0.0.1:1/shop")
    assert result.returncode == 1
    assert "SECRET_KEY" in result.stderr


@pytest.mark.parametrize(("given", "limit"), [("", "10s"), ("-c lock_timeout=5s", "5s")])
def test_sessions_have_the_shops_time_outs_unless_the_operator_gives_others(given, limit):
    show = """
import django
django.setup()
from django.db import connection
with connection.cursor() as cursor:
    for name in ("lock_timeout", "idle_in_transaction_session_timeout"):
        cursor.execute(f"SHOW {name}")
        print(*cursor.fetchone())
"""
    names = {"PGOPTIONS": given, "DJANGO_SETTINGS_MODULE": "shop.tests.settings"}
    assert run_python(show, **{**os.environ, **names}).stdout.split() == [limit, "15s"]


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
    "check": ("import sys, manage; sys.argv = ['manage.py', 'check', '--deploy']; manage.main()"),
}


def start(how: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Start a process of production with only these variables set."""
    return run_python(STARTS[how], **variables)


@pytest.mark.parametrize("how", STARTS)
def test_no_process_starts_production_without_its_settings(how: str) -> None:
    done = start(how, SHOP_DEMO="0", SHOP_PAYMENTS="1")
    assert done.returncode != 0
    assert "These environment variables must be set" in done.stderr
    for name in ALL_NEEDED:
        assert name in done.stderr


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
]


@pytest.mark.parametrize(("name", "value"), UNSAFE)
def test_production_refuses_to_start_with_an_unsafe_value(name: str, value: str) -> None:
    done = start("wsgi", **{**PRODUCTION, name: value})
    assert done.returncode != 0
    assert f"ImproperlyConfigured: {name} " in done.stderr


@pytest.mark.parametrize("how", STARTS)
def test_every_way_to_start_names_all_unsafe_values_at_once(how: str) -> None:
    done = start(how, **{**PRODUCTION, **dict(UNSAFE)})
    assert done.returncode != 0
    for name in dict(UNSAFE):
        assert f"{name} must" in done.stderr


@pytest.mark.parametrize(
    "variables",
    [
        {},
        {"PSP_URL": "http://psp.example", "PSP_HTTPS": "0"},
        {"PSP_URL": "http://127.0.0.1:9000"},
        {"PSP_URL": "http://[::1]:9000"},
        {"PSP_URL": "http://localhost:9000"},
        {"SECRET_KEY": "0123456789abcdef" * 4},
    ],
)
def test_production_starts_with_safe_values_and_plain_http_to_the_provider_on_purpose(
    variables: dict[str, str],
) -> None:
    done = start("wsgi", **{**PRODUCTION, **variables})
    assert done.returncode == 0, done.stderr


def test_production_passes_djangos_own_deployment_checks() -> None:
    result = manage("check", "--deploy", "--fail-level", "WARNING", **PRODUCTION)
    assert result.returncode == 0, result.stderr


def test_a_check_of_the_deployment_without_any_settings_is_one_of_production() -> None:
    result = manage("check", "--deploy")
    assert result.returncode == 1
    assert "SECRET_KEY" in result.stderr
    assert manage("check").returncode == 0


def test_a_secret_may_be_a_files_content(monkeypatch, tmp_path):
    (tmp_path / "secret").write_text("from the file\n")
    monkeypatch.delenv("SECRET_KEY", raising=False)
    monkeypatch.setenv("SECRET_KEY_FILE", str(tmp_path / "secret"))
    assert environment.is_set("SECRET_KEY")
    assert environment.text("SECRET_KEY") == "from the file"
    monkeypatch.setenv("SECRET_KEY", "from the environment")
    assert environment.text("SECRET_KEY") == "from the environment"


def test_a_secrets_file_that_cannot_be_read_is_named(monkeypatch, tmp_path):
    monkeypatch.delenv("SECRET_KEY", raising=False)
    monkeypatch.setenv("SECRET_KEY_FILE", str(tmp_path / "nothing"))
    with pytest.raises(ImproperlyConfigured, match=r"SECRET_KEY_FILE.*nothing"):
        environment.text("SECRET_KEY")


NEEDED = "production does not start without it"
OWN = "its own"
REFUSED, STOPS = "production does not start, and names it", "production does not start"
TAKEN = "it is taken as it is"

CHOSEN = {variable.name: variable.default for variable in environment.VARIABLES}
OPTIONS = ("SHOP_PAGES", "SHOP_PAYMENTS", "SHOP_LANGUAGES")
"""What each shop may choose for itself."""

TABLE: dict[str, tuple[str, object, object, str]] = {
    "DATABASE_URL": ("", NEEDED, "", STOPS),
    "REDIS_URL": ("REDIS_URL", NEEDED, "", TAKEN),
    "CELERY_BROKER_URL": ("", NEEDED, "", TAKEN),
    "PSP_URL": ("PSP_URL", NEEDED, "", REFUSED),
    "PSP_KEY": ("PSP_KEY", NEEDED, OWN, TAKEN),
    "PSP_WEBHOOK_SECRET": ("PSP_WEBHOOK_SECRET", NEEDED, OWN, REFUSED),
    "PSP_HTTPS": ("", "1", "1", REFUSED),
    "SHOP_DEMO": ("", "0", "0", REFUSED),
    "SHOP_PORT": ("", "8000", "8000", REFUSED),
    "PUBLIC_URL": ("PUBLIC_URL", "", "http://127.0.0.1:8000", TAKEN),
    "SHOP_BIND": ("", "127.0.0.1", "127.0.0.1", TAKEN),
    "WEB_CONCURRENCY": ("", "2", "2", REFUSED),
    "WEB_CONNECTIONS": ("", "4000", "4000", REFUSED),
    "WEB_READ_TIMEOUT": ("", "10", "10", REFUSED),
    "DB_POOL_SIZE": ("", "16", "16", REFUSED),
    "DB_POOL_MIN": ("", "1", "1", REFUSED),
    "DB_COMMIT_SECONDS": ("", "5", "5", REFUSED),
    "PGOPTIONS": ("", "", "", TAKEN),
    "SHOP_NAME": ("SHOP_NAME", "Flash sale", "Flash sale", TAKEN),
    "SHOP_CURRENCY": ("CURRENCY", "CNY", "CNY", REFUSED),
    "RATE_LIMIT": ("SHOP_RATE_LIMIT", 20, 0, REFUSED),
    "INVENTORY_MAX_BATCH": ("INVENTORY_MAX_BATCH", 256, 256, REFUSED),
    "INVENTORY_MAX_WAITING": ("INVENTORY_MAX_WAITING", 5000, 5000, REFUSED),
    "INVENTORY_MAX_WAIT": ("INVENTORY_MAX_WAIT", 10, 10, REFUSED),
    "SECRET_KEY": ("SECRET_KEY", NEEDED, OWN, REFUSED),
    "ALLOWED_HOSTS": ("ALLOWED_HOSTS", NEEDED, ["127.0.0.1", "localhost"], TAKEN),
    "CSRF_TRUSTED_ORIGINS": ("CSRF_TRUSTED_ORIGINS", [], [], TAKEN),
    "SHOP_HTTPS": ("SECURE_SSL_REDIRECT", True, False, REFUSED),
    "HSTS_SECONDS": ("SECURE_HSTS_SECONDS", 3600, 0, REFUSED),
    "HSTS_SUBDOMAINS": ("SECURE_HSTS_INCLUDE_SUBDOMAINS", False, False, REFUSED),
    "HSTS_PRELOAD": ("SECURE_HSTS_PRELOAD", False, False, REFUSED),
    "EMAIL_HOST": ("EMAIL_HOST", "", "", TAKEN),
    "EMAIL_PORT": ("EMAIL_PORT", 587, 587, REFUSED),
    "EMAIL_HOST_USER": ("EMAIL_HOST_USER", "", "", TAKEN),
    "EMAIL_HOST_PASSWORD": ("EMAIL_HOST_PASSWORD", "", "", TAKEN),
    "DEFAULT_FROM_EMAIL": ("DEFAULT_FROM_EMAIL", "shop@localhost", "shop@localhost", TAKEN),
    "METRICS_FOLDER": ("", "", "", TAKEN),
    "METRICS_PORT": ("", "9101", "9101", REFUSED),
    "LOG_FORMAT": ("", "", "", REFUSED),
    "LOG_LEVEL": ("", "INFO", "INFO", REFUSED),
    "OTEL_TRACES_EXPORTER": ("", "", "", REFUSED),
    "OTEL_TRACES_SAMPLER": ("", "parentbased_traceidratio", "parentbased_traceidratio", TAKEN),
    "OTEL_TRACES_SAMPLER_ARG": ("", "0.01", "0.01", TAKEN),
    "SENTRY_DSN": ("", "", "", TAKEN),
    **{name: ("", CHOSEN[name], CHOSEN[name], REFUSED) for name in OPTIONS},
}
"""Of each variable, the setting that it becomes (empty: processes read it themselves), its default
in production and in a demonstration, where passwords of its own are made, and what nonsense in it
does."""

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
    assert TABLE.keys() == {variable.name for variable in environment.VARIABLES}


@pytest.mark.parametrize("nonsense", ["nonsense", "-1"])
def test_nonsense_in_a_setting_does_what_the_table_says(nonsense: str) -> None:
    found = walk(dict.fromkeys(TABLE, nonsense))
    for name, (*_, consequence) in TABLE.items():
        assert bool(found[name]) == (consequence != TAKEN), (name, found[name])
        assert consequence != REFUSED or name in str(found[name]), (name, found[name])


def test_without_a_setting_production_does_what_the_table_says() -> None:
    found = walk(dict.fromkeys(TABLE, ""))
    for name, (_, without, *_) in TABLE.items():
        assert bool(found[name]) == (without == NEEDED), (name, found[name])
        assert without != NEEDED or name in str(found[name])


@pytest.mark.parametrize("demo", [False, True])
def test_each_default_is_the_tables(demo: bool, tmp_path: Path) -> None:
    module = environment.SETTINGS
    if demo:
        module = "development.settings"
    given = {name: setting for name, (setting, *_) in TABLE.items()}
    for name, value in run(READ, given, module, SHOP_DATA=str(tmp_path)).items():
        default = TABLE[name][1 + demo]
        if default == OWN:
            assert value
        else:
            # Without what it needs, production does not start: see above.
            assert value == ([] if name == "ALLOWED_HOSTS" else "") or default != NEEDED
            assert value == default or default == NEEDED, name
