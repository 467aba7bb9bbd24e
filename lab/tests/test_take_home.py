"""`make take-home`: a shop of its own, from an empty folder to green tests."""

from __future__ import annotations

import os
import re
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from development.private import private_folder
from lab.environment import PROJECT
from lab.take_home import copying, pinned
from lab.take_home.repository import NotTaken, take
from lab.tests.test_adopting import script_of

ACME = "Acme Tickets"
STAYS_HERE = re.compile(
    r"\b(labs?|loadtest|(?<!of )course|benchmarks?)\b|flash.sale", re.IGNORECASE
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


@pytest.fixture
def acme() -> Iterator[Path]:
    # Each start of pytest closes its temporary folders to others, PostgreSQL's system user among
    # them, whose programs are in the virtual environment there.
    with private_folder() as folder:
        take(folder / "acme", ACME)
        yield folder / "acme"


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
    done = subprocess.run(
        ["sh", "-euc", script],
        cwd=folder,
        env=present | author,
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
    )
    told = done.stdout + done.stderr
    assert done.returncode == 0, told[-6000:]
    return told


def test_it_speaks_of_nothing_that_stays_here(acme):
    said = []
    for path in acme.rglob("*"):
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


def test_its_documents_and_its_makefile_lead_nowhere_else(acme):
    for page in (acme / "README.md", *(acme / "docs").glob("*.md")):
        for link in re.findall(r"\]\((?!https:)([^)#]+)", page.read_text()):
            assert (page.parent / link).exists(), (page, link)
        for target in re.findall(r"\bmake ([a-z-]+)", page.read_text()):
            assert f"\n{target}:" in (acme / "Makefile").read_text(), (page, target)
    assert ACME in (acme / "README.md").read_text()
    assert f'"SHOP_NAME", "{ACME}"' in (acme / "shop" / "environment.py").read_text()
    assert "profiles: [demo]" not in (acme / "docker-compose.yml").read_text()


def test_a_later_copy_is_merged_into_what_the_team_has_changed(acme):
    run(acme, "echo '# Ours' >> shop/urls.py && git commit -qam 'Change the shop'")
    # An earlier version, as if one file had been added and one had been changed since.
    run(
        acme,
        """
        git checkout -q upstream
        git rm -q shop/money.py && echo '# Old' >> shop/wsgi.py && git commit -qam 'Be older'
        git checkout -q main && git merge -q upstream
    """,
    )
    assert "git merge upstream" in take(acme, ACME)
    run(acme, "git merge -q upstream")
    assert (acme / "shop" / "urls.py").read_text().endswith("# Ours\n")
    for same in ("shop/money.py", "shop/wsgi.py"):
        assert (acme / same).read_text() == (PROJECT / same).read_text()


@pytest.mark.parametrize("name", ["", "抢购", 'Acme "Tickets"'])
def test_a_name_that_cannot_be_part_of_other_names_is_refused(tmp_path, name):
    with pytest.raises(NotTaken, match="NAME"):
        take(tmp_path / "shop", name)


def test_a_folder_with_something_else_is_refused(tmp_path):
    (tmp_path / "thesis.txt").write_text("my only copy")
    with pytest.raises(NotTaken, match="not empty"):
        take(tmp_path, ACME)


def test_a_text_that_is_replaced_and_no_longer_there_is_reported():
    with pytest.raises(copying.Changed, match=r"manage\.py"):
        copying.taken("manage.py", "print()", ACME)


def test_packages_that_only_came_with_others_do_not_come_along():
    assert pinned.without(PINNED, {"wheel-house"}) == PINNED[: PINNED.index("    #   wheel")]
    assert pinned.without(PINNED, {"boat"}).startswith(
        "keel==3.0\n    # via\n    #   wheel-house\n"
    )


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_it_passes_its_tests_lint_and_types_with_an_order_that_has_an_address(acme):
    changes = (PROJECT / "docs" / "changing.md").read_text(encoding="utf-8")
    example = changes.split("\n## ")[1]
    assert example.startswith("A field that each buyer gives")
    run(acme, "make types", 900)  # installs the environment
    run(acme, f"export PATH=$PWD/.venv/bin:$PATH\n{script_of(example)}", 300)
    changed = run(acme, "git status --porcelain").split("\n")
    files = [line for line in changed if line and "/migrations/" not in line]
    assert len(files) <= 6, files
    assert len([line for line in changed if "/migrations/" in line]) == 1
    run(acme, "git add --all && git commit -qm 'Ship to an address'")
    told = run(acme, "make lint types test", 1500)
    assert re.search(r"^=* ?\d+ passed", told, re.MULTILINE), told[-3000:]
