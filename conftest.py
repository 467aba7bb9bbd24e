"""Real servers for every test: a private PostgreSQL and Valkey, unless the URLs say otherwise.

Django is set up here and not by an ini setting, since pytest-django would read the settings before
this file could start the servers that they name.
"""

import atexit
import gc
import os
import signal
import sys
from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import django
import pytest

LAB = find_spec("lab") is not None
SETTINGS = "lab.settings" if LAB else "shop.tests.settings"
LEFT_OUT = pytest.StashKey[int]()
SERVER_VARIABLES = ("DATABASE_URL", "REDIS_URL", "CELERY_BROKER_URL")

_servers = ExitStack()


def _give_servers() -> None:
    if all(os.environ.get(name) for name in SERVER_VARIABLES):
        return
    if not LAB:
        sys.exit(f"error: set {', '.join(SERVER_VARIABLES)}; the tests fill and empty all of them")
    from lab.stack.embedded import private_servers
    from lab.stack.errors import StackError
    from lab.stack.system_errors import explain

    try:
        servers = _servers.enter_context(private_servers(durable=False))
    except (StackError, OSError) as error:
        sys.exit(f"error: {explain(error) or error}")
    atexit.register(_servers.close)
    os.environ.update(servers.urls.as_environment())
    os.environ["SHOP_DATA"] = str(servers.folder)


def _separate_parallel_workers() -> None:
    """Give each worker of pytest-xdist its own Redis databases; pytest-django does it for SQL."""
    worker = os.environ.get("PYTEST_XDIST_WORKER", "")
    if not worker:
        return
    first = 2 + 2 * int(worker.removeprefix("gw"))
    for name, number in (("REDIS_URL", first), ("CELERY_BROKER_URL", first + 1)):
        os.environ[name] = f"{os.environ[name].rpartition('/')[0]}/{number}"


def pytest_unconfigure() -> None:
    _servers.close()


def _hear_ctrl_c() -> None:
    """A shell starts what runs in its background deaf to it, and all its children after it."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


_hear_ctrl_c()
_give_servers()
_separate_parallel_workers()
os.environ["SHOP_DEMO"] = "1" if LAB else "0"
os.environ["DJANGO_SETTINGS_MODULE"] = SETTINGS
django.setup()
# Workers of pytest-xdist inherit the environment. With this variable set, pytest-django would read
# their settings before this file has given each its own Redis databases.
del os.environ["DJANGO_SETTINGS_MODULE"]

from shop.tests import order, quick  # noqa: E402 - needs Django

quick.install()


def pytest_collection_finish() -> None:
    """Name the settings again, for the processes that tests start."""
    os.environ["DJANGO_SETTINGS_MODULE"] = SETTINGS
    # No collection needs to look through all modules and tests again; some tests ask for one.
    gc.collect()
    gc.freeze()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--long", action="store_true", help="the long tests too, as on CI")


@pytest.hookimpl(trylast=True)  # after the order that saves fixtures
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not (config.getoption("--long") or _nothing_may_be_skipped()):
        asked = {Path(argument.partition("::")[0]).resolve() for argument in config.args}
        kept = [item for item in items if item.path in asked or not order.is_long(item)]
        config.stash[LEFT_OUT] = len(items) - len(kept)
        config.hook.pytest_deselected(items=list(set(items).difference(kept)))
        items[:] = kept
    if workers := _worker_input(config).get("workercount"):
        items[:] = order.long_first(items, workers)


def _worker_input(config: pytest.Config) -> dict[str, Any]:
    """Return what pytest-xdist told this worker; nothing in a process without workers."""
    found: dict[str, Any] = getattr(config, "workerinput", {})
    return found


def _nothing_may_be_skipped() -> bool:
    """On CI every optional server and the browser are there: a skipped test is a hidden one."""
    return os.environ.get("CI") == "true"


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Take over what a worker of pytest-xdist has left out."""
    node.config.stash[LEFT_OUT] = getattr(node, "workeroutput", {}).get("left_out", 0)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if left_out := terminalreporter.config.stash.get(LEFT_OUT, 0):
        terminalreporter.write_line(
            f"{left_out} long tests were left out; `make test ARGS=--long` runs them too.",
            yellow=True,
        )
    skipped = terminalreporter.stats.get("skipped", [])
    if skipped and _nothing_may_be_skipped():
        terminalreporter.section("skipped on CI, which counts as failed", red=True)


def pytest_sessionfinish(session: pytest.Session) -> None:
    if _worker_input(session.config):
        vars(session.config)["workeroutput"]["left_out"] = session.config.stash.get(LEFT_OUT, 0)
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if reporter and reporter.stats.get("skipped") and _nothing_may_be_skipped():
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
