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
from lab.take_home import copying, pinned
from lab.take_home.repository import NotTaken, take
from lab.tests.test_adopting import script_of
from shop.tests import processes

ACME = "Acme Tickets"
STAYS_HERE = re.compile(
    r"\b(labs?|loadtest|locust|(?<!of )course|benchmarks?|make demo)\b|flash.sale", re.IGNORECASE
)

PINNED = """\
boat==1.0
    # via -r run.in
hull==2.0
    # via
    #   boat
    #   -c ../other.txt
keel==3.0
    # via
    #   boat
    #   hull
    #   wheel-house
wheel-house==4.0 ; python_version < '3.12'
    # via -r run.in
"""

WITH_THIS_ENVIRONMENT = f"export PATH={Path(sys.executable).parent}:$PATH"

OPTIONS: dict[str, tuple[dict[str, Any], str]] = {
    "all": ({}, "200 200 401 en"),
    "api only": ({"pages": False}, "404 200 401 en"),
    "without payments": ({"payments": False}, "200 200 404 en"),
    "English only": ({"languages": "en"}, "200 200 401 en"),
    "Chinese": ({"languages": "zh-hans"}, "200 200 401 zh-hans"),
    "nothing that may be left out": (
        {"pages": False, "payments": False, "languages": "en"},
        "404 200 404 en",
    ),
}
"""What was chosen, and what `ASKED` prints there."""


@contextmanager
def taken_home(**options: Any) -> Iterator[Path]:
    # Each start of pytest closes its temporary folders to others, PostgreSQL's system user among
    # them, whose programs are in the virtual environment there.
    with private_folder() as folder:
        take(folder / "acme", ACME, **options)
        yield folder / "acme"


@pytest.fixture
def acme() -> Iterator[Path]:
    with taken_home() as folder:
        yield folder


@pytest.fixture(scope="module", params=OPTIONS)
def any_acme(request: pytest.FixtureRequest) -> Iterator[Path]:
    with taken_home(**OPTIONS[request.param][0]) as folder:
        yield folder


def run(folder: Path, script: str, seconds: float = 60) -> str:
    """Run a shell script that must succeed, in an environment of its own; return its output."""
    ours = (
        *("PYTEST", "PYTHON", "DJANGO", "SHOP", "CELERY", "PSP", "VIRTUAL_ENV", "VENV", "MAKE"),
        *("DATABASE_URL", "REDIS_URL"),
        *("ARGS", "CI"),  # a team's `make test` leaves out the long tests, and nothing else
    )
    present = {name: text for name, text in os.environ.items() if not name.startswith(ours)}
    author = {
        f"GIT_{who}_{what}": "ann@acme.example"
        for who in ("AUTHOR", "COMMITTER")
        for what in ("NAME", "EMAIL")
    }
    done = processes.run("sh", "-euc", script, cwd=folder, env=present | author, seconds=seconds)
    told = done.stdout + done.stderr
    assert done.returncode == 0, told[-6000:]
    return told


def test_it_speaks_of_nothing_that_stays_here(any_acme):
    said = []
    for path in any_acme.rglob("*"):
        if path.is_file() and ".git" not in path.parts and path.name != "LICENSE":
            text = path.read_text(encoding="utf-8", errors="replace")
            said += [f"{path}: {found[0]}" for found in STAYS_HERE.finditer(text)]
    assert said == []


def test_its_tools_look_at_its_own_folders(acme):
    tool = tomllib.loads((acme / "pyproject.toml").read_text())["tool"]
    ours = {"development", "inventory", "locking", "serving", "shop"}
    assert set(tool["ruff"]["lint"]["isort"]["known-first-party"]) == ours
    assert set(tool["pytest"]["ini_options"]["testpaths"]) == ours
    assert set(tool["mypy"]["files"]) == ours | {"manage.py"}
    assert tool["django-stubs"]["django_settings_module"] == "development.settings"


def test_its_documents_and_its_makefile_lead_nowhere_else(any_acme):
    acme = any_acme
    for page in (acme / "README.md", *(acme / "docs").glob("*.md")):
        for link in re.findall(r"\]\((?!https:)([^)#]+)", page.read_text()):
            assert (page.parent / link).exists(), (page, link)
        assert not re.search(r"(?m)^##.*\n+(?=##|\Z)|concerts?/", page.read_text()), page
        for path in re.findall(r"`((?:\w+|\.ci)/[\w./-]+)`", page.read_text()):
            assert (acme / path).exists(), (page, path)
        for target in re.findall(r"\bmake ([a-z-]+)", page.read_text()):
            assert f"\n{target}:" in (acme / "Makefile").read_text(), (page, target)
    assert ACME in (acme / "README.md").read_text()
    assert f'"SHOP_NAME", "{ACME}"' in (acme / "shop" / "environment.py").read_text()
    assert "profiles: [demo]" not in (acme / "docker-compose.yml").read_text()


def test_a_later_copy_is_merged_into_what_the_team_has_changed(acme):
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


def test_it_is_checked_and_what_was_left_out_is_not_there(any_acme, request):
    """Needs no database: none of these requests is let through to it."""
    _, answered = OPTIONS[request.node.callspec.params["any_acme"]]
    settings = "export SHOP_DEMO=1 DJANGO_SETTINGS_MODULE=development.settings"
    said = run(any_acme, f"{settings}; {sys.executable} -c '{ASKED}'")
    assert said.splitlines()[-1] == answered


def test_nothing_of_payments_is_left_in_production_without_them(tmp_path):
    take(tmp_path, ACME, payments=False)
    places = ("docker", "docker-compose.yml", ".env.example", "docs")
    files = run(tmp_path, f"git ls-files {' '.join(places)}").splitlines()
    assert {name.split("/")[0] for name in files} == set(places)
    left = re.compile("psp[_.-]", re.IGNORECASE)
    assert [name for name in files if left.search((tmp_path / name).read_text("utf-8"))] == []


def test_a_later_copy_is_what_the_first_one_was(tmp_path):
    take(tmp_path, ACME, payments=False, languages="zh-hans")
    take(tmp_path, "Acme", pages=False)
    found = run(tmp_path, "git show upstream:shop/environment.py")
    for variable, default in {
        "SHOP_NAME": "Acme",
        "SHOP_PAGES": "0",
        "SHOP_PAYMENTS": "0",
        "SHOP_LANGUAGES": "zh-hans",
    }.items():
        assert f'"{variable}", "{default}"' in found


@pytest.mark.parametrize(
    ("folder", "name", "why"),
    [
        *(("new", name, "NAME") for name in ("", 'Acme "Tickets"', "Acme\\new", "Acme " * 9)),
        ("", ACME, "DEST is missing"),
        ("full", ACME, "not empty"),
        ("full/thesis.txt", ACME, "not empty"),
    ],
)
def test_what_cannot_be_taken_home_is_refused_with_the_reason(tmp_path, folder, name, why):
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.txt").write_text("my only copy")
    with pytest.raises(NotTaken, match=why):
        take(tmp_path / folder if folder else Path(), name)


@pytest.mark.parametrize("languages", ["xx", "en,", "zh-cn"])
def test_a_language_that_django_does_not_know_is_refused(tmp_path, languages):
    with pytest.raises(NotTaken, match="Django knows no language"):
        take(tmp_path / "new", ACME, languages=languages)
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("name", ["抢购", "A flash-sale & $HOME's"])
def test_make_hands_on_a_name_and_languages_as_they_are_given(tmp_path, name):
    make = f"make -C {PROJECT} take-home DEST={tmp_path} LANGUAGES='zh-hans, en' NAME="
    run(tmp_path, make + shlex.quote(name.replace("$", "$$")))
    found = (tmp_path / "shop" / "environment.py").read_text("utf-8")
    assert f'"SHOP_NAME", "{name}"' in found
    assert '"SHOP_LANGUAGES", "zh-hans,en"' in found


def test_a_text_that_is_replaced_and_no_longer_there_is_reported():
    with pytest.raises(copying.Changed, match=r"manage\.py"):
        copying.taken("manage.py", "print()", copying.Wanted(ACME))


def test_packages_that_only_came_with_others_do_not_come_along():
    assert pinned.without(PINNED, {"wheel-house"}) == PINNED[: PINNED.index("    #   wheel")]
    assert pinned.without(PINNED, {"boat"}).startswith(
        "keel==3.0\n    # via\n    #   wheel-house\n"
    )


PASSED = re.compile(r"^=* ?\d+ passed", re.MULTILINE)

CHANGED = "shop development"
"""Folders whose tests a change waits for; the others are copied as they are, and tested here."""


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_it_passes_its_tests_lint_and_types_with_an_order_that_has_an_address(acme):
    changes = (PROJECT / "docs" / "changing.md").read_text(encoding="utf-8")
    example = changes.split("\n## ")[1]
    assert example.startswith("A field that each buyer gives")
    run(acme, "make .venv/.dev", 300)
    run(acme, f"export PATH=$PWD/.venv/bin:$PATH\n{script_of(example)}", 300)
    changed = run(acme, "git status --porcelain").split("\n")
    files = [line for line in changed if line and "/migrations/" not in line]
    assert len(files) <= 6, files
    assert len([line for line in changed if "/migrations/" in line]) == 1
    run(acme, "git add --all && git commit -qm 'Ship to an address'")
    told = run(acme, f"make lint types && make test ARGS='{CHANGED}'", 1500)
    assert PASSED.search(told), told[-3000:]


@pytest.mark.nightly
@pytest.mark.timeout(1800)
def test_it_passes_its_tests_and_runs_whatever_was_left_out(any_acme):
    """What is left out is a default in one table, which neither lint nor types read."""
    tests = f"{CHANGED} development/tests/test_run.py"  # named, so that it runs, though it is long
    pytest_there = "python -m pytest -n 4 --dist worksteal -m 'not browser'"
    told = run(any_acme, f"{WITH_THIS_ENVIRONMENT}; {pytest_there} {tests}", 1500)
    assert PASSED.search(told), told[-3000:]
