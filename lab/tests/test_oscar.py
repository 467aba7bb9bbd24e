"""examples/oscar: its own tests, in an environment that has django-oscar and nothing else."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from django.conf import settings
from django.db import connection

from lab import environment

EXAMPLE = environment.PROJECT / "examples" / "oscar"

pytestmark = [pytest.mark.long, pytest.mark.timeout(600), pytest.mark.django_db]


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("oscar")
    requirements = EXAMPLE / "requirements.txt"
    uv = Path(sys.executable).with_name("uv")
    for command in (
        [uv, "venv", "-q", folder],
        [uv, "pip", "install", "-q", "--python", folder, "-r", requirements],
    ):
        subprocess.run([str(each) for each in command], check=True)
    return folder / "bin" / "python"


def run(python: Path, *tests: str, guarded: bool) -> str:
    """Run tests of the example; return what was printed."""
    server = connection.settings_dict
    variables = {
        "PGHOST": server["HOST"],
        "PGPORT": str(server["PORT"]),
        "PGUSER": server["USER"],
        "PGPASSWORD": server["PASSWORD"],
        # Its test database has a name of its own, so that it disturbs no other test.
        "PGDATABASE": f"oscar_{server['NAME']}",
        "REDIS_URL": settings.REDIS_URL,
        "GUARDED": str(int(guarded)),
    }
    done = subprocess.run(
        [str(python), "manage.py", "test", *tests],
        cwd=EXAMPLE,
        env={**os.environ, **variables, "DJANGO_SETTINGS_MODULE": "project.settings"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stderr


def test_a_guarded_oscar_shop_sells_exactly_its_stock_and_keeps_oscars_ways(python):
    told = run(python, "tests", guarded=True)
    assert re.search(r"^Ran \d\d? tests .*\n\nOK$", told, re.MULTILINE), told


def test_without_the_guard_the_same_buyers_get_more_than_there_is(python):
    told = run(python, "tests.test_guarded.Rush", guarded=False)
    assert re.search(r"^Ran 1 test .*\n\nOK$", told, re.MULTILINE), told
