"""`make take-home`: a shop of its own, from an empty folder to green tests."""

from __future__ import annotations

import os
import re
import shlex
import sys
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from development.leftovers import private_folder
from lab.environment import PROJECT
from lab.take_home.repository import NotTaken, take
from lab.tests.test_adopting import script_of
from shop.tests import processes

ACME = "Acme Tickets"
STAYS_HERE = re.compile(
    r"\b(labs?|loadtest|locust|(?<!of )course|benchmarks?|make demo)\b|flash.sale", re.IGNORECASE
)
OF_THE_PROOF = {"development/prove.py", "requirements/load.in", "requirements/load.txt"}
OF_THE_ADMIN = {"shop/tests/test_admin_languages.py"}  # which knows the name of our own section
"""What names the load test, whose wheel goes along; the licence keeps its authors' name."""

WITH_THIS_ENVIRONMENT = f"export PATH={Path(sys.executable).parent}:$PATH"

LEAST = "nothing that may be left out"
"""What is made every day; the other copies take long."""

OPTIONS: dict[str, tuple[dict[str, str], str]] = {
    "all": ({}, "200 200 401 en"),
    "api only": ({"SHOP_PAGES": "0"}, "404 200 401 en"),
    "without payments": ({"SHOP_PAYMENTS": "0"}, "200 200 404 en"),
    "Chinese": ({"SHOP_LANGUAGES": "zh-hans"}, "200 200 401 zh-hans"),
    LEAST: (
        {"SHOP_PAGES": "0", "SHOP_PAYMENTS": "0", "SHOP_LANGUAGES": "en"},
        "404 200 404 en",
    ),
}
"""What was chosen, and what `ASKED` prints there."""


@contextmanager
def taken_home(**defaults: str) -> Iterator[Path]:
    # Each start of pytest closes its temporary folders to others, PostgreSQL's system user among
    # them, whose programs are in the virtual environment there.
    with private_folder() as folder:
        take(folder / "acme", ACME, **defaults)
        yield folder / "acme"


@pytest.fixture
def acme() -> Iterator[Path]:
    with taken_home() as folder:
        yield folder


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(name, marks=[] if name == LEAST else [pytest.mark.long]) for name in OPTIONS
    ],
)
def any_acme(request: pytest.FixtureRequest) -> Iterator[Path]:
    with taken_home(**OPTIONS[request.param][0]) as folder:
        yield folder


def run(folder: Path, script: str, seconds: float = 60) -> str:
    """Run a shell script that must succeed, in an environment of its own; return its output."""
    ours = (
        "PYTEST",
        "PYTHON",
        "DJANGO",
        "SHOP",
        "CELERY",
        "PSP",
        "VIRTUAL_ENV",
        "VENV",
        "MAKE",
        "DATABASE_URL",
        "REDIS_URL",
        "ARGS",
        "CI",  # a team's `make test` leaves out the long tests, and nothing else
    )
    present = {name: text for name, text in os.environ.items() if not name.startswith(ours)}
    author = {
        f"GIT_{who}_{what}": "ann@acme.example"
        for who in ("AUTHOR", "COMMITTER")
        for what in ("NAME", "EMAIL")
    }
    done = processes.run("sh", "-euc", script, cwd=folder, env=present | author, seconds=seconds)
    output = done.stdout + done.stderr
    assert done.returncode == 0, output[-6000:]
    return output


def own(folder: Path) -> dict[str, Any]:
    """Return what a copy says about itself."""
    return tomllib.loads((folder / "own" / "shop.toml").read_text(encoding="utf-8"))


def test_taken_home_shop_names_nothing_that_is_not_there(acme):
    said = []
    for path in acme.rglob("*"):
        name = str(path.relative_to(acme))
        if (
            path.is_file()
            and name not in {*OF_THE_PROOF, *OF_THE_ADMIN, "LICENSE"}
            and path.suffix != ".whl"
        ):
            if ".git" in path.parts:
                continue
            text = path.read_text(encoding="utf-8", errors="replace").replace('"loadtest.*"', "")
            said += [f"{name}: {found[0]}" for found in STAYS_HERE.finditer(text)]
    assert said == []


def test_its_tools_look_at_its_own_folders_as_ours_do(acme):
    def tools(folder: Path) -> Any:
        return tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))["tool"]

    theirs, ours = tools(acme), tools(PROJECT)
    folders = {"development", "inventory", "locking", "own", "serving", "shop"}
    assert set(theirs["ruff"]["lint"]["isort"]["known-first-party"]) == folders
    assert set(theirs["pytest"]["ini_options"]["testpaths"]) == folders
    assert set(theirs["mypy"]["files"]) == folders | {"manage.py"}
    assert theirs["django-stubs"]["django_settings_module"] == "development.settings"
    for same in ("select", "ignore"):
        assert theirs["ruff"]["lint"][same] == ours["ruff"]["lint"][same]
    for same in ("filterwarnings", "addopts", "timeout"):
        assert theirs["pytest"]["ini_options"][same] == ours["pytest"]["ini_options"][same]


def test_its_documents_and_its_makefile_lead_nowhere_else(acme):
    for page in (acme / "README.md", *(acme / "docs").glob("*.md")):
        for link in re.findall(r"\]\((?!https:)([^)#]+)", page.read_text()):
            assert (page.parent / link).exists(), (page, link)
        for path in re.findall(r"`((?:\w+|\.ci)/[\w./-]+)`", page.read_text()):
            assert (acme / path).exists(), (page, path)
        for target in re.findall(r"(?m)^(?:`make|make) ([a-z-]+)", page.read_text()):
            assert f"\n{target}:" in (acme / "Makefile").read_text(), (page, target)


def test_copy_made_later_merges_with_the_teams_changes(acme):
    run(acme, "echo '# Ours' >> shop/urls.py && git commit -qam 'Change the shop'")
    # An earlier version, as if one file had been added and one had been changed since.
    older = "git rm -q shop/money.py && echo '# Old' >> shop/wsgi.py && git commit -qam 'Be older'"
    run(acme, f"git checkout -q upstream && {older}")
    run(acme, "git checkout -q main && git merge -q upstream")
    assert "git merge upstream" in take(acme, ACME)
    run(acme, "git merge -q upstream")
    assert (acme / "shop" / "urls.py").read_text().endswith("# Ours\n")
    for same in ("shop/money.py", "shop/wsgi.py"):
        assert (acme / same).read_text() == (PROJECT / same).read_text()


@pytest.mark.long
def test_its_code_is_tidy_and_imports_only_what_it_may(acme):
    run(acme, f"{WITH_THIS_ENVIRONMENT}; ruff check . && ruff format --check . && lint-imports")


ASKED = """
import django
django.setup()
from django.core.management import call_command
from django.test import Client
call_command("check", fail_level="WARNING")
client = Client(HTTP_HOST="127.0.0.1")
print(client.get("/sign-in/").status_code, client.get("/api/docs").status_code,
      client.post("/api/v1/webhooks/psp").status_code, client.get("/api/docs")["Content-Language"])
"""


def test_copy_is_checked_and_lacks_what_was_left_out(any_acme, request):
    """Needs no database: none of these requests is let through to it."""
    _, answered = OPTIONS[request.node.callspec.params["any_acme"]]
    settings = "export SHOP_DEMO=1 DJANGO_SETTINGS_MODULE=development.settings"
    said = run(any_acme, f"{settings}; {sys.executable} -c '{ASKED}'")
    assert said.splitlines()[-1] == answered


def test_later_copy_keeps_the_defaults_of_the_first_one(tmp_path):
    take(tmp_path, ACME, SHOP_PAYMENTS="0", SHOP_LANGUAGES="zh-hans", SHOP_CURRENCY="EUR")
    take(tmp_path, "Acme", SHOP_PAGES="0")
    found = tomllib.loads(run(tmp_path, "git show upstream:own/shop.toml"))
    assert found["defaults"] == {
        "SHOP_NAME": "Acme",
        "SHOP_PAGES": "0",
        "SHOP_PAYMENTS": "0",
        "SHOP_LANGUAGES": "zh-hans",
        "SHOP_CURRENCY": "EUR",
    }


def test_same_version_makes_the_same_copy(tmp_path):
    take(tmp_path, ACME)
    before = run(tmp_path, "git rev-parse upstream")
    take(tmp_path, ACME)
    assert run(tmp_path, "git rev-parse upstream") == before


@pytest.mark.parametrize(
    ("folder", "name", "why"),
    [
        *(("new", name, "NAME") for name in ("", 'Acme "Tickets"', "Acme\\new", "Acme " * 9)),
        ("", ACME, "DEST is missing"),
        ("full", ACME, "not empty"),
        ("full/thesis.txt", ACME, "not empty"),
    ],
)
def test_copy_that_is_impossible_is_refused_with_the_reason(tmp_path, folder, name, why):
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.txt").write_text("my only copy")
    with pytest.raises(NotTaken, match=why):
        take(tmp_path / folder if folder else Path(), name)


@pytest.mark.parametrize("languages", ["xx", "en,", "zh-cn"])
def test_copy_refuses_a_language_that_django_does_not_know(tmp_path, languages):
    with pytest.raises(NotTaken, match="Django knows no language"):
        take(tmp_path / "new", ACME, SHOP_LANGUAGES=languages)
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("name", ["抢购", "A flash-sale & $HOME's"])
def test_make_hands_on_a_name_and_languages_as_they_are_given(tmp_path, name):
    make = f"make -C {PROJECT} take-home DEST={tmp_path} LANGUAGES='zh-hans, en' NAME="
    run(tmp_path, make + shlex.quote(name.replace("$", "$$")))
    assert own(tmp_path)["defaults"]["SHOP_NAME"] == name
    assert own(tmp_path)["defaults"]["SHOP_LANGUAGES"] == "zh-hans,en"


PASSED = re.compile(r"^=* ?\d+ passed", re.MULTILINE)

CHANGED = "shop own development"
"""Folders whose tests a change waits for; the others are copied as they are, and tested here."""

TOUCHED = (
    "own shop/tests/test_details.py shop/tests/test_buying.py shop/tests/test_admin_languages.py"
    " development/tests/test_catalogues.py"
)
"""Tests of what the changes below touch; the others run at night."""

WEIGHT = """
weight="    weight = models.PositiveIntegerField(null=True, blank=True)"
sed -i "/^    list_price = models/i\\\\$weight" shop/catalogue/models.py
python3 manage.py makemigrations
python3 manage.py messages || true  # ends with 1: a new word needs a translator
sed -i '/^msgid "weight"$/{n;s/""/"重量"/}' shop/locale/zh_Hans/LC_MESSAGES/django.po
python3 manage.py messages
"""
"""A field of the team's own for the admin."""

UPSTREAM = """
git checkout -q upstream
sed -i 's/^own_migrations = true/own_migrations = false/' own/shop.toml
seen="    seen = models.BooleanField(db_default=False)"
sed -i "/^    pay_before = models/i\\\\$seen" shop/orders/models.py
python3 manage.py makemigrations shop --name later
git checkout -q own/shop.toml
git add --all && git commit -qm 'A later version'
git checkout -q main
git merge -q -m 'Merge a later version' upstream
"""
"""A later version of the shop, with a migration of its own, is merged."""


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("tests", [TOUCHED, pytest.param(CHANGED, marks=pytest.mark.nightly)])
def test_copy_passes_its_checks_after_an_upstream_migration(tests):
    """German and EUR, a field of each order, one of the admin, and then a later version."""
    changes = (PROJECT / "docs" / "changing.md").read_text(encoding="utf-8")
    example = changes.split("\n## ")[1]
    assert example.startswith("A field that each buyer gives")
    with taken_home(SHOP_LANGUAGES="en,de", SHOP_CURRENCY="EUR") as acme:
        run(acme, "make .venv/.dev", 300)
        there = "export PATH=$PWD/.venv/bin:$PATH"
        run(acme, f"{there}\n{script_of(example)}", 300)
        changed = run(acme, "git status --porcelain --untracked-files=all").splitlines()
        migrations = [line for line in changed if "/migrations/" in line]
        assert [line.split("/")[0] for line in migrations] == ["?? own"]
        assert len(changed) - len(migrations) <= 6, changed
        run(acme, "git add --all && git commit -qm 'Ship to an address'")
        run(acme, f"{there}\n{WEIGHT}", 300)
        run(acme, "git add --all && git commit -qm 'Weigh products'")
        run(acme, f"{there}\n{UPSTREAM}", 300)
        run(acme, f"{there}\npython3 manage.py makemigrations --check --dry-run", 300)
        output = run(acme, f"make lint types && make test ARGS='{tests}'", 3000)
    assert PASSED.search(output), output[-3000:]


@pytest.mark.nightly
@pytest.mark.timeout(1800)
def test_copy_passes_its_tests_and_proof(any_acme):
    """What is left out is a default in one table, which neither lint nor types read."""
    tests = f"{CHANGED} development/tests/test_run.py"  # named, so that it runs, though it is long
    pytest_there = "python -m pytest -n 4 --dist worksteal -m 'not browser'"
    output = run(any_acme, f"{WITH_THIS_ENVIRONMENT}; {pytest_there} {tests}", 1500)
    assert PASSED.search(output), output[-3000:]
    unpacked = "python -m zipfile -e wheels/*.whl .data/wheel"
    prove = "PYTHONPATH=.data/wheel python -m development.prove"
    output = run(any_acme, f"{WITH_THIS_ENVIRONMENT}; {unpacked} && {prove}", 300)
    assert output.startswith("HOLDS"), output[-3000:]
