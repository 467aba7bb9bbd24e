"""Which tests a run leaves out, that it says so, and their order: a plugin of pytest.

Long tests run on CI, with --long, or if their file is named. A test that needs what this machine
lacks (`development/needs.py`) is skipped, which on CI counts as failed. At the end of a run each
reason is named once, with the number of tests.

Tests can be divided into two runs, of which the second runs what the first did not pass. A test
that the first run skipped, left out or failed is in the second; so both together are all of them,
and none runs twice.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

LEFT_OUT = pytest.StashKey[int]()
KINDS = ("passed", "failed", "error")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--long", action="store_true", help="the long tests too, as on CI")
    parser.addoption("--passed-to", help="write the names of passed tests to this file")
    parser.addoption("--passed-in", help="leave out tests whose names are in this file")


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> Iterator[None]:
    if file := config.getoption("--passed-in"):  # while all tests are still there
        _leave_out_passed(Path(file), config, items)
    yield
    # After the order that saves fixtures.
    if not (config.getoption("--long") or _is_ci()):
        asked = {Path(argument.partition("::")[0]).resolve() for argument in config.args}
        kept = [item for item in items if item.path in asked or not is_long(item)]
        config.stash[LEFT_OUT] = len(items) - len(kept)
        config.hook.pytest_deselected(items=list(set(items).difference(kept)))
        items[:] = kept
    if workers := _worker_input(config).get("workercount"):
        items[:] = long_first(items, workers)


def _leave_out_passed(file: Path, config: pytest.Config, items: list[pytest.Item]) -> None:
    passed = set(file.read_text().splitlines())
    if strange := passed.difference(item.nodeid for item in items):
        raise pytest.UsageError(f"passed before, but not among the tests: {sorted(strange)}")
    config.hook.pytest_deselected(items=[item for item in items if item.nodeid in passed])
    items[:] = [item for item in items if item.nodeid not in passed]


def is_long(item: pytest.Item) -> bool:
    """Return whether a test has the mark `long` or `nightly`."""
    return any(item.get_closest_marker(mark) for mark in ("long", "nightly"))


def long_first(items: Sequence[pytest.Item], workers: int) -> list[pytest.Item]:
    """Order tests for pytest-xdist's `worksteal`, so that a run does not end with a long one.

    It gives each worker one slice of the tests, and an idle worker the end of another one's. So
    each slice begins with long tests. The modules of these stay together, since their tests share
    what they start; those with the longest time-outs come first.
    """
    modules: dict[Path, list[pytest.Item]] = {}
    short = []
    for item in items:
        if is_long(item):
            modules.setdefault(item.path, []).append(item)
        else:
            short.append(item)
    slices: list[list[pytest.Item]] = [[] for _ in range(workers)]
    for module in sorted(modules.values(), key=_time_limit, reverse=True):
        min(slices, key=_time_limit).extend(module)
    ordered: list[pytest.Item] = []
    for number, long in enumerate(slices):
        size = (len(items) - len(ordered)) // (workers - number)
        count = max(0, size - len(long))
        ordered += [*long, *short[:count]]
        del short[:count]
    return ordered + short


def _time_limit(items: Iterable[pytest.Item]) -> float:
    """Return the sum of the tests' time-outs: the best guess at what they will take."""
    total = 0.0
    for item in items:
        mark = item.get_closest_marker("timeout")
        total += float(mark.args[0] if mark else item.config.getini("timeout"))
    return total


def _is_ci() -> bool:
    return os.environ.get("CI") == "true"


def _worker_input(config: pytest.Config) -> dict[str, Any]:
    """Return what pytest-xdist has sent to this worker; empty in a process without workers."""
    found: dict[str, Any] = getattr(config, "workerinput", {})
    return found


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Take over what a worker of pytest-xdist has left out."""
    node.config.stash[LEFT_OUT] = getattr(node, "workeroutput", {}).get("left_out", 0)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    long = terminalreporter.config.stash.get(LEFT_OUT, 0)
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
        vars(session.config)["workeroutput"]["left_out"] = session.config.stash.get(LEFT_OUT, 0)
    # Workers of pytest-xdist have no reporter; the process that started them hears of all tests.
    if not (reporter := session.config.pluginmanager.get_plugin("terminalreporter")):
        return
    if file := session.config.getoption("--passed-to"):
        names = {kind: {each.nodeid for each in reporter.stats.get(kind, [])} for kind in KINDS}
        passed = names["passed"] - names["failed"] - names["error"]
        Path(file).write_text("".join(f"{name}\n" for name in sorted(passed)))
    if reporter.stats.get("skipped") and _is_ci():
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
