"""The commands that a document shows work."""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from subprocess import CompletedProcess

import pytest
from django.core.management import CommandError, get_commands, load_command_class

from inventory.selling import guard
from lab import environment
from lab.management.commands import write_settings
from loadtest.run_plan import RunPlan
from loadtest.scenarios import MIXES
from shop.tests.processes import run

PROJECT = environment.PROJECT
DOCUMENTS = sorted((PROJECT / "docs").glob("*.md"))
EXECUTED = {"adopting.md", "changing.md", "changing-adopted.md", "take-home.md", "index.md"}
"""Pages whose commands test_adopting.py, test_take_home.py and test_tutorial.py execute."""
# Parsed by other programs: pip, pytest, ruff and the shell.
NOT_OURS = {"test", "lint", "types", "lock", "clean", "help", "packages", "take-home", "soak"}


def bare_python(*words: str, **variables: str) -> CompletedProcess[str]:
    """Run `python3 manage.py` with a Python that has no packages, as outside the environment."""
    python = sys._base_executable  # type: ignore[attr-defined]
    return run(python, "-S", "manage.py", *words, env={**os.environ, **variables})


def test_commands_continue_in_the_virtual_environment():
    done = bare_python("lesson", "setnx-expire", VENV=sys.prefix)
    assert (done.returncode, done.stderr) == (0, "")
    assert "SETNX" in done.stdout


def test_commands_without_an_environment_say_how_to_get_one():
    done = bare_python("lesson", VENV="no-such-folder")
    assert (done.returncode, done.stdout) == (1, "")
    assert re.fullmatch(r"error: .*`make test`.*no-such-folder\.\n", done.stderr)


def documented() -> Iterator[str]:
    """Return the documents' command lines, which stand alone on a line."""
    start = r"(?:python3? |\.venv/bin/python |(?:[A-Z_]+=\S+ )*make )"
    ours = [path for path in DOCUMENTS if path.name not in EXECUTED]
    for path in (PROJECT / "README.md", *ours):
        yield from re.findall(rf"(?m)^ *({start}.*)$", path.read_text(encoding="utf-8"))


def understand(command: str, arguments: list[str]) -> None:
    """Let the `manage.py` command parse its arguments.

    Raises:
        SystemExit: it cannot.
    """
    app = get_commands()[command]
    load_command_class(app, command).create_parser("manage.py", command).parse_args(arguments)


@pytest.mark.parametrize("count", ["0", "-1", "x"])
def test_commands_refuse_an_impossible_count_in_words(count):
    with pytest.raises(CommandError, match=f"'{count}' is not a whole number of at least 1"):
        understand("prove", [f"--stock={count}"])


@pytest.mark.parametrize("command", [["prove"], ["prove_shop", "oscar"]])
def test_commands_refuse_an_unwritable_result_before_the_run(command, tmp_path):
    for path in (tmp_path / "none" / "result.json", tmp_path):
        with pytest.raises(CommandError, match="not a file in a folder that exists"):
            understand(command[0], [*command[1:], f"--json={path}"])


@pytest.mark.parametrize("line", sorted(set(documented())))
def test_documented_command_is_understood(line):
    words = shlex.split(line, comments=True)
    while re.match(r"[A-Z_]+=", words[0]):
        words.pop(0)
    if words[0] == "make":
        target, given = words[1], dict(word.split("=", 1) for word in words[2:])
        assert f"\n{target}:" in (PROJECT / "Makefile").read_text()
        if target not in NOT_OURS:
            shop = [given["SHOP"]] if "SHOP" in given else []
            understand(target.replace("-", "_"), shop + shlex.split(given.get("ARGS", "")))
    elif words[1] == "-m":
        assert words[0] == ".venv/bin/python", "another Python lacks the packages"
        assert find_spec(words[2]) is not None
    elif words[1] == "manage.py":
        assert words[0] == "python3", "Debian has no `python`"
        understand(words[2], words[3:])
    else:
        assert (PROJECT / words[1]).exists()


@pytest.mark.parametrize("page", ["README.md", "README.zh.md"])
def test_readme_shows_the_guard_as_it_is(page):
    text = (PROJECT / page).read_text(encoding="utf-8")
    (shown,) = re.findall(r"(?s)```sql\n(.*?)```", text)
    assert shown in guard.TAKE_OR_FAIL


def test_settings_page_is_what_the_command_writes():
    page = write_settings.PAGE.read_text(encoding="utf-8")
    assert write_settings.rewrite(page) == page


@pytest.mark.parametrize("page", ["README.md", *(f"docs/{p.name}" for p in DOCUMENTS)])
def test_documents_name_only_files_that_exist(page):
    text = (PROJECT / page).read_text(encoding="utf-8")
    folders = r"(?:locking|course|inventory|serving|shop|lab|loadtest|docs|docker|\.ci)/"
    named = re.findall(rf"`({folders}[\w./-]*)", text)
    linked = re.findall(r"\]\((?!https?:|#)([^)#]+)[^)]*\)", text)
    missing = [name for name in named if not (PROJECT / name).exists()]
    missing += [name for name in linked if not (PROJECT / page).parent.joinpath(name).exists()]
    assert missing == []


def test_proof_repeat_command_is_understood():
    for mix in MIXES:
        plan = RunPlan(
            buyers=20, seed=7, stock=5, mix=mix, arrivals=1.5, minutes=2.0, faults=("redis-killed",)
        )
        make, target, arguments = shlex.split(plan.repeat)
        assert (make, target) == ("make", "prove")
        understand("prove", shlex.split(arguments.removeprefix("ARGS=")))
