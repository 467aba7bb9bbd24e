"""A full disk and a read-only folder end a command with one line and change nothing."""

from __future__ import annotations

import errno
import os
import re
import sys
from pathlib import Path
from subprocess import CompletedProcess

import psycopg
import pytest
from django.db import OperationalError, ProgrammingError

from development import StackError, environment
from development.leftovers import private_folder
from development.system_errors import explain, refuse_unusable, told_in_one_line
from development.tests.mounts import run_on
from shop.environment import PROJECT, VARIABLES
from shop.tests.processes import run

MANAGE = (sys.executable, "manage.py")
CREATE = """
import sys
from pathlib import Path
from development.servers import Postgres
from development.system_errors import told_in_one_line
with told_in_one_line():
    Postgres(Path(sys.argv[1]), 1, "a password").prepare()
"""


def variables(**ours: str) -> dict[str, str]:
    """Return the environment of a user who has set only these."""
    declared = (*VARIABLES, *environment.VARIABLES)
    known = {"DJANGO_SETTINGS_MODULE"} | {variable.name for variable in declared}
    return {name: value for name, value in os.environ.items() if name not in known} | ours


def on(folder: Path, options: str, *command: str, data: str = "data") -> CompletedProcess[str]:
    """Run a command whose data folder is on a separate file system."""
    ours = variables(SHOP_DATA=str(folder / data))
    return run_on(folder, options, command, ours, PROJECT)


def is_one_line(done: CompletedProcess[str]) -> bool:
    lines = done.stderr.splitlines()
    return done.returncode == 1 and len(lines) == 1 and lines[0].startswith("error: ")


LISTED = ("sh", "-c", 'folder=$1; shift; "$@"; code=$?; ls -A "$folder"; exit $code', "sh")
"""Runs a command, then lists what it has written to a folder."""


def refuses_a_small_disk(tmp_path: Path, *words: str) -> None:
    """Run a command of `manage.py` on a disk with too little room."""
    done = on(tmp_path, "size=20m,mode=1777", *LISTED, str(tmp_path), *MANAGE, *words)
    assert is_one_line(done), done.stderr
    assert re.search(r"has \d+ MB left, and 256 MB are needed.*SHOP_DATA=", done.stderr)
    assert done.stdout == "", "something was written"


def test_disk_with_too_little_room_is_refused_at_the_start(tmp_path):
    refuses_a_small_disk(tmp_path, "audit")


def test_disk_that_fills_leaves_no_half_database():
    with private_folder() as folder:
        command = (*LISTED, str(folder), sys.executable, "-c", CREATE, str(folder))
        done = on(folder, "size=20m,mode=1777", *command, data=".")
    assert is_one_line(done), done.stderr
    assert f"The disk of {folder} is full" in done.stderr
    assert done.stdout.split() == []


def names_a_read_only_folder(tmp_path: Path, *words: str) -> None:
    """Run a command; root ignores modes, so this needs a read-only file system."""
    if os.geteuid() == 0:
        done = on(tmp_path, "ro", *MANAGE, *words)
    else:
        tmp_path.chmod(0o555)
        done = run(*MANAGE, *words, env=variables(SHOP_DATA=str(tmp_path / "data")))
    assert is_one_line(done), done.stderr
    assert re.search(rf"{tmp_path}\S* is not writable.*SHOP_DATA=", done.stderr)


def test_read_only_folder_is_named(tmp_path):
    names_a_read_only_folder(tmp_path, "audit")


@pytest.mark.parametrize("data", ["file/data", "x" * 300], ids=["below a file", "name too long"])
def test_data_folder_that_cannot_exist_is_named(tmp_path, data):
    (tmp_path / "file").touch()
    done = run(*MANAGE, "audit", env=variables(SHOP_DATA=str(tmp_path / data)))
    assert is_one_line(done), done.stderr
    assert "SHOP_DATA=" in done.stderr


def test_folder_with_room_is_not_refused(tmp_path):
    refuse_unusable(tmp_path / "not" / "yet", room=1)
    with pytest.raises(StackError, match="are needed"):
        refuse_unusable(tmp_path, room=2**60)


def test_error_of_the_program_keeps_its_traceback():
    for error in (OSError(errno.ECONNREFUSED, "refused"), ProgrammingError("no such table")):
        assert explain(error) is None
        with pytest.raises(type(error)), told_in_one_line():
            raise error


def test_disk_that_fills_while_a_command_runs_is_reported():
    error = OperationalError("could not extend file")
    error.__cause__ = psycopg.errors.DiskFull()
    with pytest.raises(SystemExit, match=r"error: The disk of .* is full"), told_in_one_line():
        raise error
