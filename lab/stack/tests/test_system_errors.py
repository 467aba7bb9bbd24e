"""The lab's commands end with one line too where the system refuses; see `development/tests`."""

from __future__ import annotations

import subprocess

import pytest

from development.tests.test_system_errors import (
    MANAGE,
    is_one_line,
    names_a_read_only_folder,
    refuses_a_small_disk,
    variables,
)
from lab import environment


@pytest.mark.parametrize("words", [("demo",), ("prove", "--buyers", "9")], ids=str)
def test_a_disk_with_too_little_room_is_refused_before_anything_is_written(tmp_path, words):
    refuses_a_small_disk(tmp_path, *words)


@pytest.mark.parametrize("words", [("demo",), ("reset",), ("lesson",)], ids=str)
def test_a_read_only_folder_is_named(tmp_path, words):
    names_a_read_only_folder(tmp_path, *words)


@pytest.mark.parametrize(("port", "told"), [("x", "a whole number"), ("65536", "from 1 to 65535")])
def test_a_wrong_port_is_reported_before_anything_starts(tmp_path, port, told):
    done = subprocess.run(
        (*MANAGE, "demo"),
        cwd=environment.PROJECT,
        env=variables(SHOP_DATA=str(tmp_path / "data"), SHOP_PORT=port),
        capture_output=True,
        text=True,
        check=False,
    )
    assert is_one_line(done), done.stderr
    assert told in done.stderr
    assert not (tmp_path / "data").exists()
