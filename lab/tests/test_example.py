"""The example of docs/adopting.md: another shop with other orders on the same stock.

The test copies it with the two packages and their tests, as a team does.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
import redis
from django.conf import settings
from django.db import connection

from inventory import conf
from lab import environment

EXAMPLE = environment.PROJECT / "docs" / "example"

REDIS_DATABASE = 15
"""The last database, which no test worker uses."""

TOGETHER = "test_a_process_with_the_lock_and_one_without_redis_stay_exact_together"
SOME_TESTS = (
    "inventory/tests/test_rules.py",
    "inventory/tests/test_guard.py",
    f"inventory/tests/test_processes.py::{TOGETHER}",
    "locking/tests/test_contract.py",
    "locking/tests/test_redis_lock.py",
)
"""One test of each kind: rules, database, other processes, Redis."""


class Project:
    """A Django project in a separate folder, with its own database and Redis.

    Args:
        folder: of the project.
        variables: additional environment variables.
    """

    def __init__(self, folder: Path, variables: dict[str, str]) -> None:
        self._folder = folder
        ours = ("PYTEST", "PYTHON", "DJANGO", "SHOP", "CELERY", "PSP")
        present = {name: text for name, text in os.environ.items() if not name.startswith(ours)}
        self._environment = present | variables

    def manage(self, *words: str) -> str:
        """Run a command of the project that must succeed; return its output."""
        return self._run("manage.py", *words)

    def pytest(self, *words: str) -> str:
        """Run the project's tests; return pytest's output."""
        return self._run("-m", "pytest", "-q", "-p", "no:cacheprovider", *words)

    def _run(self, *words: str) -> str:
        done = subprocess.run(
            [sys.executable, *words],
            cwd=self._folder,
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout


@pytest.fixture
def project(db: None, tmp_path: Path) -> Iterator[Project]:
    """The example with copies of the packages, on the tests' servers."""
    folder = tmp_path / "project"
    not_the_caches = shutil.ignore_patterns("__pycache__")
    shutil.copytree(EXAMPLE, folder, ignore=not_the_caches)
    for package in ("locking", "inventory"):
        shutil.copytree(environment.PROJECT / package, folder / package, ignore=not_the_caches)
    (folder / "pytest.ini").write_text(
        "[pytest]\nDJANGO_SETTINGS_MODULE = concerts.settings\nfilterwarnings = error\n"
    )
    name = f"example_{os.getpid()}"
    server = {
        key: connection.settings_dict[key.upper()] for key in ("host", "port", "user", "password")
    }
    # Its items have the same ids as the shop's, whose hints must not be read.
    own_redis = f"{settings.REDIS_URL.rpartition('/')[0]}/{REDIS_DATABASE}"
    redis.Redis.from_url(own_redis).flushdb()
    url = f"postgresql://{server['user']}:{server['password']}@/{name}"
    variables = {
        "DATABASE_URL": f"{url}?host={server['host']}&port={server['port']}",
        "REDIS_URL": own_redis,
    }
    with psycopg.connect(dbname="postgres", autocommit=True, **server) as admin:
        admin.execute(f'CREATE DATABASE "{name}"')
        yield Project(folder, variables)
        admin.execute(f'DROP DATABASE "{name}" WITH (FORCE)')


def test_another_shop_sells_its_seats_once_each(project):
    manage = project.manage
    assert "no issues" in manage("check", "--fail-level", "WARNING")
    assert "No changes detected" in manage("makemigrations", "--check")
    manage("migrate", "--verbosity", "0")
    told = manage("rush")
    assert "'Granted': 50" in told
    assert "'SoldOut': 150" in told
    assert "50 bookings, 20 paid, 0 seats left, problems: []" in told
    assert sorted(map(int, re.findall(r"\d+", " ".join(re.findall(r"\[(.*?)\]", told))))) == list(
        range(1, 51)
    ), "every booking was followed up once"


@pytest.mark.long
@pytest.mark.timeout(300)  # it runs tests, which have time-outs of their own
def test_the_copied_tests_are_all_found_and_run_there(project):
    found = project.pytest("--collect-only", "inventory", "locking")
    here = [
        path.relative_to(environment.PROJECT)
        for package in ("inventory", "locking")
        for path in (environment.PROJECT / package / "tests").rglob("test_*.py")
    ]
    left = ("test_bench", "test_lessons", "test_simulator")
    missing = [str(path) for path in here if f"{path}::" not in found]
    assert [path for path in missing if not Path(path).name.startswith(left)] == []
    told = project.pytest(*SOME_TESTS)
    assert re.search(r"^\d+ passed", told, re.MULTILINE), told
    assert "skipped" not in told


def test_the_guide_names_every_setting_and_its_default():
    guide = (environment.PROJECT / "docs" / "adopting.md").read_text()
    for each in (conf.REDIS_URL, conf.MAX_BATCH, conf.MAX_WAITING, conf.MAX_WAIT):
        assert re.search(rf"`{each.name}` \| `{re.escape(str(each.default))}` \|", guide)
    assert "INVENTORY" not in (EXAMPLE / "concerts" / "settings.py").read_text()


def test_the_pieces_shown_in_the_guide_are_those_of_the_example():
    guide = (environment.PROJECT / "docs" / "adopting.md").read_text()
    code = "\n".join(path.read_text() for path in EXAMPLE.rglob("*.py"))
    shown = re.findall(r"```python title=example\n(.*?)```", guide, re.DOTALL)
    assert len(shown) >= 3
    for piece in shown:
        assert piece.strip() in code
