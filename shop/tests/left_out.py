"""What a run of the tests leaves out, and that it says so: a plugin of pytest.

Long tests run on CI, with --long, or if their file is named. A test that needs what this machine
lacks (`locking/tests/needs.py`) is skipped, which on CI counts as failed. At the end of a run each
reason is named once, with the number of tests.
"""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from shop.tests import order

LONG = pytest.StashKey[int]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--long", action="store_true", help="the long tests too, as on CI")


@pytest.hookimpl(trylast=True)  # after the order that saves fixtures
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not (config.getoption("--long") or _is_ci()):
        asked = {Path(argument.partition("::")[0]).resolve() for argument in config.args}
        kept = [item for item in items if item.path in asked or not order.is_long(item)]
        config.stash[LONG] = len(items) - len(kept)
        config.hook.pytest_deselected(items=list(set(items).difference(kept)))
        items[:] = kept
    if workers := _worker_input(config).get("workercount"):
        items[:] = order.long_first(items, workers)


def _is_ci() -> bool:
    return os.environ.get("CI") == "true"


def _worker_input(config: pytest.Config) -> dict[str, Any]:
    """Return what pytest-xdist told this worker; nothing in a process without workers."""
    found: dict[str, Any] = getattr(config, "workerinput", {})
    return found


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Take over what a worker of pytest-xdist has left out."""
    node.config.stash[LONG] = getattr(node, "workeroutput", {}).get("left_out", 0)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    long = terminalreporter.config.stash.get(LONG, 0)
    skipped = Counter(map(_reason, terminalreporter.stats.get("skipped", [])))
    if not (long or skipped):
        return
    failed = bool(skipped) and _is_ci()
    terminalreporter.section("left out" + ", which fails on CI" * failed, red=failed)
    for reason, count in sorted(skipped.items()):
        terminalreporter.write_line(f"{count:6} tests: {reason}", yellow=True)
    if long:
        line = f"{long:6} long tests: `make test ARGS=--long` runs them too"
        terminalreporter.write_line(line, yellow=True)


def _reason(report: pytest.TestReport | pytest.CollectReport) -> str:
    assert isinstance(report.longrepr, tuple)
    return str(report.longrepr[2]).removeprefix("Skipped: ")


def pytest_sessionfinish(session: pytest.Session) -> None:
    if _worker_input(session.config):
        vars(session.config)["workeroutput"]["left_out"] = session.config.stash.get(LONG, 0)
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if reporter and reporter.stats.get("skipped") and _is_ci():
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
