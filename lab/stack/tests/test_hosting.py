"""Real shops as processes of this machine."""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from development import StackError, leftovers
from development.folder import alone, make_folder
from development.leftovers import private_folder
from development.processes import serves
from lab import environment
from lab.stack import hosting
from lab.stack.tests.plain_client import PLAIN, Shop, oversold
from loadtest.rush import rush_shop
from loadtest.shops import load
from loadtest.shops.setup import Setup, names, setup_of
from loadtest.ui.other_shops import running
from shop.tests.processes import run

UNITS, BUYERS, ROUNDS = 5, 30, 3
BROKEN = frozenset({"evershop", "flask_example", "medusa", "oscar", "vendure"})
"""The shops that sell more than they have, as they are set up by default."""


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that PostgreSQL's system user may enter; pytest's own is closed to it."""
    with private_folder() as made:
        yield made


def shop_of(setup: Setup, monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    monkeypatch.setenv("SHOP_DATA", str(folder))
    monkeypatch.setattr(hosting, "setup_of", lambda name: setup)


def python(code: str) -> tuple[str, ...]:
    return sys.executable, "-c", code


@pytest.mark.parametrize(
    ("setup", "message"),
    [
        (Setup(serve={}, steps=(python("raise SystemExit('no such table')"),)), "no such table"),
        pytest.param(
            Setup(serve={}, steps=(python("import time; time.sleep(600)"),)),
            "took more than 1 s",
            marks=pytest.mark.long,
        ),
        pytest.param(
            Setup(serve={"web": python("raise SystemExit('port in use')")}),
            "port in use",
            marks=pytest.mark.long,
        ),
    ],
    ids=["a step fails", "a step takes too long", "a server ends at once"],
)
def test_hosting_error_shows_its_last_lines_and_leaves_nothing(
    setup: Setup, message: str, monkeypatch: pytest.MonkeyPatch, folder: Path
):
    shop_of(setup, monkeypatch, folder)
    monkeypatch.setattr(hosting, "STEP_SECONDS", 1 if "took" in message else 60)
    with (
        pytest.raises(StackError, match=message),
        hosting.hosted("flask_example", workers=1, tell=print),
    ):
        raise AssertionError("it must not start")
    assert leftovers.find(folder) == []


def test_hosting_shows_no_password(monkeypatch: pytest.MonkeyPatch, folder: Path):
    fails = (*python("raise SystemExit(1)"), "{db_password}", "{database}")
    shop_of(Setup(serve={}, steps=(fails,)), monkeypatch, folder)
    shown: list[str] = []
    with (
        pytest.raises(StackError) as error,
        hosting.hosted("flask_example", workers=1, tell=shown.append),
    ):
        raise AssertionError("it must not start")
    for line in (shown[-1], str(error.value)):
        assert "raise SystemExit(1) … postgresql://shop:…@" in line


def test_hosting_refuses_a_second_shop_at_once(monkeypatch: pytest.MonkeyPatch, folder: Path):
    shop_of(Setup(serve={}), monkeypatch, folder)
    with alone(make_folder(folder / "shops" / "flask_example") / "command.lock") as free:
        assert free
        with (
            pytest.raises(StackError, match="in use by another command"),
            hosting.hosted("flask_example", workers=1, tell=print),
        ):
            raise AssertionError("it must not start")


@pytest.mark.parametrize("version", ["", "v18.1.0"])
def test_hosting_without_node_is_left_out_with_one_line(
    version: str, monkeypatch: pytest.MonkeyPatch, folder: Path
):
    if version:
        for name in ("node", "npm"):
            (folder / name).write_text(f"#!/bin/sh\necho {version}\n")
            (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(folder))
    lack = hosting.missing(Setup(serve={}, node=("left-pad@1.3.0",)))
    assert "it needs Node.js 20 or newer" in lack
    assert "\n" not in lack


def prove(*words: str) -> CompletedProcess[str]:
    return run(sys.executable, "manage.py", "prove_shop", *words, seconds=1800)


@pytest.mark.long
def test_hosting_refuses_a_row_that_a_shop_does_not_have():
    said = prove("flask_example", "--row", "fast")
    assert said.returncode == 2
    assert "flask_example has no row 'fast'; its rows: cured" in said.stderr


def test_hosted_shops_have_a_description_and_a_plain_client():
    assert set(names()) == set(PLAIN)
    assert all(setup_of(name).serve["web"] for name in names())


def test_oscar_gets_what_its_guarded_row_needs():
    wanted = (hosting.REPOSITORY / "examples/oscar/requirements.txt").read_text().splitlines()
    assert set(setup_of("oscar").python) >= set(wanted)


@pytest.mark.long
def test_hosted_shop_runs_until_the_input_of_its_host_ends():
    command = shlex.join([sys.executable, str(environment.PROJECT / "manage.py"), "host_shop"])
    said: list[str] = []
    with running(command, "peer_django", said.append) as url:
        assert serves(f"{url}/readyz")
        assert os.environ["PEER_KEY"]
    assert not serves(f"{url}/readyz")
    assert "starting its servers" in said
    assert leftovers.find(environment.data_folder() / "shops" / "peer_django") == []


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", ["flash_sale", "peer_django", "peer_fastapi"])
def test_hosted_shops_of_this_repository_hold(name: str):
    said = prove(name, "--rounds", "1")
    assert said.returncode == 0, said.stdout + said.stderr
    assert f"SHOP={name}" in said.stdout
    assert re.search(r"^Sold per second: [\d.]+$", said.stdout, re.MULTILINE), "one round, one rate"


@pytest.mark.nightly
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", sorted(PLAIN))
def test_hosted_shop_is_judged_as_an_independent_client_finds_it(
    name: str, monkeypatch: pytest.MonkeyPatch
):
    """Installed, started, rushed by both, and stopped; neither knows the other's sales."""
    if lack := hosting.missing(setup_of(name)):
        said = prove(name)
        assert (said.returncode, lack in said.stderr) == (2, True)
        return
    with hosting.hosted(name, workers=4, tell=lambda _: None) as (url, variables):
        for key, value in variables.items():
            monkeypatch.setenv(key, value)
        found = [oversold(Shop(url, variables), PLAIN[name], UNITS, BUYERS) for _ in range(ROUNDS)]
        adapter = load(f"loadtest.shops.{name}.adapter:Adapter", url)
        result = rush_shop(adapter, UNITS, BUYERS, ROUNDS, host=url, shrink=False)
    assert result.reason == ""
    assert (result.exit_code == 1, any(found)) == (name in BROKEN, name in BROKEN), found
    assert leftovers.find(environment.data_folder() / "shops" / name) == []
