"""Settings from the environment: one table, clear errors, no unsafe start."""

import os
import re
import subprocess
import sys

import pytest
from django.core.exceptions import ImproperlyConfigured

from shop import environment


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


def test_production_names_everything_that_is_missing_at_once():
    result = manage("migrate", SHOP_DEMO="0")
    assert result.returncode == 1
    for name in environment.REQUIRED:
        assert name in result.stderr
    assert "Traceback" not in result.stderr


def test_a_real_database_means_production_unless_the_demo_is_asked_for():
    result = manage("migrate", DATABASE_URL="postgresql://shop@127.0.0.1:1/shop")
    assert result.returncode == 1
    assert "SECRET_KEY" in result.stderr


@pytest.mark.parametrize("module", ["shop.wsgi", "shop.celery"])
def test_no_process_serves_production_without_its_settings(module):
    start = f"import {module} as m; getattr(m, 'app', None) and m.app.WorkController()"
    result = subprocess.run(
        [sys.executable, "-c", start],
        cwd=environment.PROJECT,
        env={"PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert "These environment variables must be set" in result.stderr


def test_production_passes_djangos_own_deployment_checks():
    result = manage(
        *("check", "--deploy", "--fail-level", "WARNING"),
        SHOP_DEMO="0",
        SECRET_KEY="q8Zt2Lk5Vw9Xr3Ny7Bm1Cd4Fg6Hj0Pa-s_uEoIiTzR5Y2W8Q1x",
        ALLOWED_HOSTS="shop.example",
        DATABASE_URL="postgresql://shop@127.0.0.1:1/shop",
        REDIS_URL="redis://127.0.0.1:1/0",
        CELERY_BROKER_URL="redis://127.0.0.1:1/1",
    )
    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize(
    ("read", "name", "value"),
    [
        (environment.number, "WEB_CONCURRENCY", "two"),
        (environment.number, "SHOP_PORT", "-1"),
        (environment.switch, "SHOP_HTTPS", "yes"),
    ],
)
def test_a_value_of_the_wrong_kind_is_named_with_its_variable(monkeypatch, read, name, value):
    monkeypatch.setenv(name, value)
    with pytest.raises(ImproperlyConfigured, match=f"{name} must be .*{value}"):
        read(name)


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
