"""Tests in two runs, of which the second runs what the first did not pass: a plugin of pytest.

A test that the first run skipped, left out or failed is in the second; so both together are all of
them, and none runs twice.
"""

from __future__ import annotations

from pathlib import Path

import pytest

KINDS = ("passed", "failed", "error")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--passed-to", help="write the names of passed tests to this file")
    parser.addoption("--passed-in", help="leave out tests whose names are in this file")


@pytest.hookimpl(tryfirst=True)  # while all tests are still there
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not (file := config.getoption("--passed-in")):
        return
    passed = set(Path(file).read_text().splitlines())
    if strange := passed.difference(item.nodeid for item in items):
        raise pytest.UsageError(f"passed before, but not among the tests: {sorted(strange)}")
    config.hook.pytest_deselected(items=[item for item in items if item.nodeid in passed])
    items[:] = [item for item in items if item.nodeid not in passed]


def pytest_sessionfinish(session: pytest.Session) -> None:
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    # Workers of pytest-xdist have no reporter; the process that started them hears of all tests.
    if reporter and (file := session.config.getoption("--passed-to")):
        names = {kind: {each.nodeid for each in reporter.stats.get(kind, [])} for kind in KINDS}
        passed = names["passed"] - names["failed"] - names["error"]
        Path(file).write_text("".join(f"{name}\n" for name in sorted(passed)))
