"""Real servers for every test: a private PostgreSQL and Valkey, unless the URLs say otherwise.

Django is set up here and not by an ini setting, since pytest-django would read the settings before
this file could start the servers that they name.
"""

import atexit
import os
import signal
from contextlib import ExitStack

import django
import pytest

from shop.stack.embedded import private_servers
from shop.stack.entry import SERVER_VARIABLES

_servers = ExitStack()


def _give_servers() -> None:
    if all(os.environ.get(name) for name in SERVER_VARIABLES):
        return
    servers = _servers.enter_context(private_servers())
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
os.environ["SHOP_DEMO"] = "1"
os.environ["DJANGO_SETTINGS_MODULE"] = "shop.settings"
django.setup()
# Workers of pytest-xdist inherit the environment. Were this in it, pytest-django would read their
# settings before this file has given each its own Redis databases.
del os.environ["DJANGO_SETTINGS_MODULE"]


LONG = (
    *("shop/tests/test_demo.py", "shop/tests/test_compose.py", "shop/tests/test_faults.py"),
    *("shop/tests/test_locust_page.py", "shop/tests/test_worker_kills.py"),
    "shop/tests/test_compose_engine.py",
    *("shop/tests/test_soak.py", "shop/tests/test_compare.py"),
    *("locking/tests/test_simulator_mutants.py", "locking/tests/test_bench.py"),
)
"""Tests that start whole shops over and over, or search for a long time. They take as long as all
the others together, so that they are left out unless they are asked for; CI always runs them."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--long", action="store_true", help="the long tests too, as on CI")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    asked = {name for name in LONG if any(name in word for word in config.args)}
    left_out = set(LONG) - asked
    if config.getoption("--long") or _nothing_may_be_skipped():
        return
    kept = [item for item in items if item.nodeid.partition("::")[0] not in left_out]
    config.hook.pytest_deselected(items=[item for item in items if item not in set(kept)])
    items[:] = kept


def _nothing_may_be_skipped() -> bool:
    """On CI every optional server and the browser are there: a skipped test is a hidden one."""
    return os.environ.get("CI") == "true"


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    skipped = terminalreporter.stats.get("skipped", [])
    if skipped and _nothing_may_be_skipped():
        terminalreporter.section("skipped on CI, which counts as failed", red=True)


def pytest_sessionfinish(session: pytest.Session) -> None:
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if reporter and reporter.stats.get("skipped") and _nothing_may_be_skipped():
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
