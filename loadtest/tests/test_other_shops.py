"""Shops that Locust's page runs in place of the one at `--host`."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path

import pytest

from loadtest.address import RunImpossible
from loadtest.shops import OURS
from loadtest.shops.setup import installed, names, setup_of
from loadtest.ui.other_shops import offered, running

HOST = """
import atexit, json, pathlib, signal, sys
folder, name = sys.argv[1:]
if name == "dying":
    sys.exit("no such table")
atexit.register(pathlib.Path(folder, "stopped").touch)
signal.signal(signal.SIGTERM, lambda *_: sys.exit())
print(json.dumps("starting its servers"), flush=True)
print(json.dumps({"url": "http://127.0.0.1:1", "environment": {"KEY_OF_SHOP": name}}), flush=True)
sys.stdin.read()
"""


def hosting(folder: Path) -> str:
    return shlex.join([sys.executable, "-c", HOST, str(folder)])


def test_a_shop_runs_during_the_block_with_the_environment_of_its_adapter(tmp_path: Path) -> None:
    said: list[str] = []
    with running(hosting(tmp_path), "oscar", said.append) as url:
        assert (url, os.environ["KEY_OF_SHOP"]) == ("http://127.0.0.1:1", "oscar")
        assert not (tmp_path / "stopped").exists()
    assert "KEY_OF_SHOP" not in os.environ
    assert (tmp_path / "stopped").exists()
    assert said == ["starting its servers"]


def test_a_shop_that_does_not_start_says_why(tmp_path: Path) -> None:
    with (
        pytest.raises(RunImpossible, match="dying does not start: no such table"),
        running(hosting(tmp_path), "dying", print),
    ):
        raise AssertionError("it must not start")


def test_the_form_offers_ours_and_the_shops_that_are_installed(tmp_path: Path) -> None:
    here = offered(str(tmp_path))
    assert here[0] == OURS
    assert set(here) == {name for name in names() if not setup_of(name).needs_packages}
    (tmp_path / "oscar").mkdir()
    (tmp_path / "oscar" / "filled").touch()
    assert set(offered(str(tmp_path))) - set(here) == {"oscar"}
    assert installed(tmp_path) == sorted(installed(tmp_path))
    assert offered("") == []
