"""docs/adopting.md, followed literally: from an empty folder to a tested sale.

The test reads the page's steps and executes them: in this environment, and, as a long test, from
the wheels in a fresh virtual environment. docs/changing-adopted.md changes the result.

examples/oscar runs its own tests in an environment that has django-oscar and nothing else.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
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
from shop.tests.processes import run, succeed

GUIDE = environment.PROJECT / "docs" / "adopting.md"
CHANGES = environment.PROJECT / "docs" / "changing-adopted.md"
PACKAGES = ("locking", "inventory")

DATABASE = "concerts"
"""The name in the guide; also the key of the advisory lock that serialises these tests."""

REDIS_DATABASE = 15
"""The last database, which no test worker uses."""

TOGETHER = "test_processes_with_and_without_redis_sell_exactly_the_stock"
SOME_TESTS = (
    "inventory/tests/test_rules.py",
    "inventory/tests/test_books.py",
    f"inventory/tests/test_processes.py::{TOGETHER}",
    "locking/tests/test_redis_lock.py",
)
"""One test of each kind: rules, database, other processes, Redis."""

RUN_SQL = """
import os
from django.db import connection
connection.cursor().execute(os.environ["SQL"])
"""
SELL = """
from uuid import uuid4
from concerts.bookings import book, expire, follow_up, pay
from concerts.models import Concert
from inventory import services
from inventory.audit import audit
concert = services.stock("a concert", 2).pk
Concert.objects.create(item_id=concert, price=4500)
services.restock(concert, 1)
booked = [book(concert, guest, uuid4(), 1, "Ann") for guest in range(4)]
print(*[type(each).__name__ for each in booked])
print(pay(booked[0].reservation), follow_up(), expire(), audit().problems)
"""

BLOCK = re.compile(r"^```(\w+)(?: (title|append)=(\S+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def steps() -> list[str]:
    """Return the guide's steps: the text after each "1. **…**"."""
    section = GUIDE.read_text().split("\n## ")[1]
    assert section.startswith("Eight steps")
    return re.split(r"^\d\. \*\*", section, flags=re.MULTILINE)[1:]


def script_of(text: str) -> str:
    """Return a shell script that does what the blocks of a text say."""
    lines = []
    for language, how, path, content in BLOCK.findall(text):
        if language == "python" and how:
            redirect = ">" if how == "title" else ">>"
            lines.append(f"cat {redirect} {path} <<'END'\n{content}END")
        elif language == "diff":
            lines.append(f"patch --no-backup-if-mismatch --fuzz=0 -p1 <<'END'\n{content}END")
        elif language == "sh":
            lines.append(content)
    return "\n".join(lines)


class Project:
    """A Django project in an empty folder, with its own database and Redis.

    Args:
        folder: of the project.
        variables: additional environment variables.
    """

    def __init__(self, folder: Path, variables: dict[str, str]) -> None:
        self._folder = folder
        ours = ("PYTEST", "PYTHON", "DJANGO", "SHOP", "CELERY", "PSP", "VIRTUAL_ENV")
        present = {name: text for name, text in os.environ.items() if not name.startswith(ours)}
        self._environment = present | variables

    def run(self, script: str, **variables: str) -> str:
        """Run a shell script that must succeed; return its output."""
        command, env = ("bash", "-euo", "pipefail", "-c", script), self._environment | variables
        done = run(*command, cwd=self._folder, env=env, seconds=280)
        output = done.stdout + done.stderr
        assert done.returncode == 0, output
        return output

    def sql(self, script: str) -> None:
        """Run SQL as the owner of the project's tables."""
        self.run(f"python manage.py shell -c {shlex.quote(RUN_SQL)}", SQL=script)

    def follow(self, guide: list[str], **variables: str) -> str:
        """Follow steps of the guide; return what they print."""
        return self.run("\n".join(script_of(step) for step in guide), **variables)


@pytest.fixture
def project(db: None, tmp_path: Path) -> Iterator[Project]:
    """An empty folder and the guide's database, on the tests' servers."""
    folder = tmp_path / "project"
    folder.mkdir()
    given = connection.settings_dict
    server = {key: given[key.upper()] for key in ("host", "port", "user", "password")}
    # Its items have the same ids as the shop's, whose locks are not its own.
    own_redis = f"{settings.REDIS_URL.rpartition('/')[0]}/{REDIS_DATABASE}"
    variables = {f"PG{key.upper()}": str(value) for key, value in server.items() if value}
    variables |= {
        "PYTHONPATH": str(environment.PROJECT),
        "REDIS_URL": own_redis,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
    }
    with psycopg.connect(dbname="postgres", autocommit=True, **server) as admin:
        admin.execute("SELECT pg_advisory_lock(hashtext(%s))", [DATABASE])
        redis.Redis.from_url(own_redis).flushdb()
        admin.execute(f"CREATE DATABASE {DATABASE}")
        yield Project(folder, variables)
        admin.execute(f"DROP DATABASE {DATABASE} WITH (FORCE)")
        admin.execute("DROP ROLE IF EXISTS seats_web")


@pytest.mark.long
@pytest.mark.timeout(300)  # it runs the project's tests four times
def test_guide_leads_to_a_sale_that_passes_its_tests(project):
    assert len(steps()) == 8
    output = project.follow(steps()[1:])
    assert "System check identified no issues" in output
    assert re.search(r"^Ran 3 tests in .*\n\nOK$", output, re.MULTILINE), output
    code = (
        "--isolated --line-length 100 concerts/{bookings,models,redis,tests,views}.py seats/urls.py"
    )
    project.run(f"ruff check --select B,E,F,UP,W {code} && ruff format --check {code}")
    _, concerts = CHANGES.read_text().split("\n## A field on the order\n")
    changes = f"## A field on the order\n{concerts}"
    output = project.run(script_of(changes))
    output += project.run("python manage.py test")
    assert len(re.findall(r"^Ran 3 tests in .*\n\nOK$", output, re.MULTILINE)) == 3, output
    [accounts] = [content for language, *_, content in BLOCK.findall(changes) if language == "sql"]
    project.sql(accounts)
    seller = {"PGUSER": "seats_web", "PGPASSWORD": "change-me"}
    sold = project.run(f"python manage.py shell -c {shlex.quote(SELL)}", **seller)
    assert "Granted Granted Granted SoldOut\nTrue 3 0 []" in sold
    refused = project.run("! python manage.py migrate inventory zero", **seller)
    assert "InsufficientPrivilege" in refused


@pytest.mark.long
@pytest.mark.timeout(300)  # it installs Django
def test_guide_works_with_the_wheels_in_a_fresh_environment(project, tmp_path):
    wheels = tmp_path / "wheels"
    for package in PACKAGES:
        source = shlex.quote(str(environment.PROJECT / "packaging" / package))
        project.run(f"uv build --quiet {source} --out-dir {shlex.quote(str(wheels))}")
    # Without the folders of this environment: only the fresh one has the packages.
    output = project.follow(
        steps(),
        PIP_FIND_LINKS=f"{wheels} {os.environ.get('PIP_FIND_LINKS', '')}",
        PATH=os.environ["PATH"],
        PYTHONPATH="",
    )
    assert re.search(r"^Ran 3 tests in .*\n\nOK$", output, re.MULTILINE), output
    where = ".venv/bin/python -c 'import inventory, locking; print(inventory.__file__)'"
    assert "project/.venv/lib" in project.run(where, PYTHONPATH="")
    alone = "import sys; sys.modules.update(dict.fromkeys(['redis', 'psycopg', 'django']))"
    project.run(f'.venv/bin/python -c "{alone}; import locking"', PYTHONPATH="")
    listed = project.run("ls .venv/lib/*/site-packages/{locking,inventory}")
    assert "py.typed" in listed
    assert "tests" not in listed


@pytest.mark.long
@pytest.mark.timeout(300)  # it runs tests, which have time-outs of their own
def test_guide_copies_tests_that_run_in_the_new_project(project):
    folder = project.run("pwd").strip()
    for package in (*PACKAGES, "development"):
        no_caches = shutil.ignore_patterns("__pycache__")
        shutil.copytree(environment.PROJECT / package, f"{folder}/{package}", ignore=no_caches)
    project.follow(steps()[1:3], PYTHONPATH="")
    pytest_here = "PYTHONPATH= python -m pytest -q -p no:cacheprovider -W error --ds=seats.settings"
    found = project.run(f"{pytest_here} --collect-only inventory locking")
    here = [
        path.relative_to(environment.PROJECT)
        for package in PACKAGES
        for path in (environment.PROJECT / package / "tests").rglob("test_*.py")
    ]
    assert [str(path) for path in here if f"{path}::" not in found] == []
    output = project.run(f"{pytest_here} {' '.join(SOME_TESTS)}")
    assert re.search(r"^\d+ passed", output, re.MULTILINE), output
    assert "skipped" not in output


def test_guide_names_every_setting_and_its_default():
    guide = GUIDE.read_text()
    for each in (conf.REDIS, conf.MAX_BATCH, conf.MAX_WAITING, conf.MAX_WAIT, conf.SELLER):
        default = str(each.default) or '""'
        assert re.search(rf"`{each.name}` \| `{re.escape(default)}` \|", guide)
    [settings_step] = [step for step in steps() if "append=seats/settings.py" in step]
    (*_, added), _ = BLOCK.findall(settings_step)
    assert len(re.findall(r"^\w+ \+?= ", added, re.MULTILINE)) == 3
    assert re.findall(r"INVENTORY_\w+", added) == [conf.REDIS.name]


EXAMPLE = environment.PROJECT / "examples" / "oscar"


@pytest.fixture(scope="module")
def oscars_python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Python that has what examples/oscar needs, and nothing else."""
    folder = tmp_path_factory.mktemp("oscar")
    requirements = EXAMPLE / "requirements.txt"
    uv = Path(sys.executable).with_name("uv")
    succeed(uv, "venv", "-q", folder)
    succeed(uv, "pip", "install", "-q", "--python", folder, "-r", requirements, seconds=600)
    return folder / "bin" / "python"


def run_oscar(python: Path, *tests: str, guarded: bool) -> str:
    """Run tests of examples/oscar; return what was printed."""
    server = connection.settings_dict
    variables = {
        "PGHOST": server["HOST"],
        "PGPORT": str(server["PORT"]),
        "PGUSER": server["USER"],
        "PGPASSWORD": server["PASSWORD"],
        # Its test database has a name of its own, so that it disturbs no other test.
        "PGDATABASE": f"oscar_{server['NAME']}",
        "GUARDED": str(int(guarded)),
    }
    env = {**os.environ, **variables, "DJANGO_SETTINGS_MODULE": "project.settings"}
    done = run(python, "manage.py", "test", *tests, cwd=EXAMPLE, env=env, seconds=600)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stderr


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.django_db
def test_oscar_with_the_guard_sells_exactly_its_stock(oscars_python):
    output = run_oscar(oscars_python, "tests", guarded=True)
    assert re.search(r"^Ran \d\d? tests .*\n\nOK$", output, re.MULTILINE), output


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.django_db
def test_oscar_without_the_guard_oversells(oscars_python):
    output = run_oscar(oscars_python, "tests.test_guarded.Rush", guarded=False)
    assert re.search(r"^Ran 1 test .*\n\nOK$", output, re.MULTILINE), output
