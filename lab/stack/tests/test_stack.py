"""The shop's processes, as demo, proof and benchmark start them."""

import os
import subprocess
import sys
import threading
from functools import partial

import psutil
import psycopg
import pytest
import urllib3

from development import leftovers
from development.embedded import ServerUrls, private_servers
from development.errors import StackError
from development.folder import private_temporary, taken
from development.private import private_folder
from lab import environment
from lab.stack.stack import Stack, serves
from shop.tests.processes import wait_for

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def urls():
    """This module's servers; the broker differs from this process's."""
    with private_servers(durable=False) as servers:
        yield servers.urls


@pytest.fixture
def folder():
    with private_folder() as parent:
        yield parent / "shop"
        assert leftovers.find(parent) == []


def migrate(urls: ServerUrls) -> None:
    subprocess.run(
        [sys.executable, "manage.py", "migrate", "--verbosity", "0"],
        cwd=environment.PROJECT,
        env={**os.environ, **urls.as_environment()},
        check=True,
        timeout=60,
    )


def is_gone(process: psutil.Process) -> bool:
    return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE


def runs_anew(stack: Stack, name: str, old_pid: int) -> bool:
    return stack.supervisor.state(name).pid not in {0, old_pid}


def test_ports_stay_claimed_while_their_servers_may_restart(urls, folder):
    with Stack(folder, urls) as stack:
        stack.start("mail")
        with (private_temporary("ports") / str(stack.mail_port)).open("a") as claim:
            assert not taken(claim)
            stack.stop()
            assert taken(claim)


def test_a_killed_gunicorn_master_and_a_killed_worker_come_back(urls, folder):
    with Stack(folder, urls) as stack:
        stack.start("web", "celery")
        for name in ("web", "celery"):
            master = psutil.Process(stack.supervisor.state(name).pid)
            wait_for(master.children)
            worker = master.children()[0]
            worker.kill()
            wait_for(partial(is_gone, worker))
            master.kill()
            wait_for(partial(runs_anew, stack, name, master.pid))
            stack.wait_until_ready(name)


def test_a_worker_that_waits_for_the_database_goes_on_serving_others(urls, folder):
    """The point of a gevent worker; lost if psycopg is imported too early."""
    migrate(urls)
    with Stack(folder, urls, extra={"WEB_CONCURRENCY": "1"}) as stack:
        stack.start("web")
        answers = []

        def ask() -> None:
            headers = {"Cookie": "sessionid=" + "x" * 32, "Connection": "close"}
            answer = urllib3.request("GET", f"{stack.url}/admin/", headers=headers, timeout=30)
            answers.append(answer.status)

        with psycopg.connect(urls.database) as blocker:
            blocker.execute("LOCK TABLE django_session IN ACCESS EXCLUSIVE MODE")
            waiting = threading.Thread(target=ask)
            waiting.start()
            wait_for(
                lambda: (
                    blocker.execute("SELECT count(*) FROM pg_locks WHERE NOT granted").fetchone()
                    != (0,)
                )
            )
            assert serves(f"{stack.url}/readyz")
            assert answers == []
        waiting.join(30)
        assert answers == [200]


def test_a_shop_that_cannot_start_says_why_at_once(urls, folder):
    with (
        Stack(folder, urls, extra={"WEB_CONNECTIONS": "many"}) as stack,
        pytest.raises(StackError, match=r"(?s)web does not start.*WEB_CONNECTIONS must be"),
    ):
        stack.start("web")
