"""What runs of the tests leave out and in which order they run, in runs of planted tests."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from shop import environment
from shop.tests.processes import run

TESTS = """
import pytest
from development.needs import Need, needs, require

HERE = Need("a shell", "reinstall the system", lambda: True)
MOON = Need("the moon", "apt-get install moon", lambda: False)

@needs(HERE)
def test_short(): pass

@pytest.mark.long
def test_long(): pass

@needs(MOON)
@pytest.mark.parametrize("phase", range(3))
def test_marked(phase): pass

@pytest.fixture
def moon(): require(HERE, MOON)

def test_with_a_fixture(moon): pass

@pytest.fixture
def broken(request): yield; assert 'broken' not in request.node.name

def test_broken_later(broken): pass

def test_wrong(): assert not FAILS
"""


@pytest.fixture
def planted(tmp_path: Path) -> Path:
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = long\ntimeout = 60\n")
    plant(tmp_path, fails=False)
    return tmp_path


def plant(folder: Path, *, fails: bool) -> None:
    (folder / "test_planted.py").write_text(f"FAILS = {fails}\n{TESTS}")


def run_tests(folder: Path, *options: str, ci: str = "") -> subprocess.CompletedProcess[str]:
    """Run them with the plugins that are needed, since all others take seconds to load."""
    plugins = ("shop.tests.selection", "xdist", "timeout")
    words = [*(f"-p{name}" for name in plugins), "-q", "--rootdir", folder]
    env = {
        **os.environ,
        "CI": ci,
        "PYTHONPATH": str(environment.PROJECT),
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
    }
    return run(sys.executable, "-m", "pytest", *words, *options, ".", cwd=folder, env=env)


def test_selection_reports_each_reason_with_its_number_of_tests(planted: Path) -> None:
    done = run_tests(planted, "-k", "not broken", "-n", "2")
    assert done.returncode == 0, done.stdout
    assert "\n     4 tests: needs the moon: apt-get install moon\n" in done.stdout
    assert "\n     1 long tests: " in done.stdout
    assert done.stdout.count("moon") == 2


def test_selection_on_ci_fails_skipped_tests_and_runs_long_ones(planted: Path) -> None:
    done = run_tests(planted, "-k", "not broken", ci="true")
    assert done.returncode == 1
    assert "left out, which fails on CI" in done.stdout
    assert "3 passed, 4 skipped" in done.stdout


def test_selection_repeats_exactly_what_did_not_pass(planted: Path, tmp_path: Path) -> None:
    plant(planted, fails=True)
    file = tmp_path / "passed"
    run_tests(planted, "--passed-to", str(file), "-n", "2")
    assert file.read_text() == "test_planted.py::test_short\n"
    plant(planted, fails=False)
    done = run_tests(planted, "--passed-in", str(file), "--long", "-v", "-n", "2")
    assert "test_short" not in done.stdout
    assert "3 passed, 4 skipped" in done.stdout


def test_selection_names_a_passed_test_that_is_gone(planted: Path, tmp_path: Path) -> None:
    (tmp_path / "passed").write_text("test_planted.py::test_gone\n")
    done = run_tests(planted, "--passed-in", str(tmp_path / "passed"))
    assert done.returncode == 4
    assert "passed before, but not among the tests: ['test_planted.py::test_gone']" in done.stderr
