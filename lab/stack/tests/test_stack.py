"""The shop's processes, as demo, proof and benchmark start them, and what the system refuses."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import psutil
import psycopg
import pytest
import urllib3

from development import StackError, leftovers
from development.embedded import private_servers
from development.folder import private_temporary, taken
from development.leftovers import private_folder
from development.processes import serves
from development.supervisor import ProcessState
from development.tests.test_system_errors import (
    MANAGE,
    is_one_line,
    names_a_read_only_folder,
    refuses_a_small_disk,
    variables,
)
from lab.stack.demo import living_workers
from lab.stack.stack import Stack
from lab.tests.whole_shop import manage
from shop.tests.processes import run, succeed, wait_for


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


@pytest.mark.long
def test_ports_stay_claimed_while_their_servers_may_restart(urls, folder):
    with Stack(folder, urls) as stack:
        stack.start("mail")
        with (private_temporary("ports") / str(stack.mail_port)).open("a") as claim:
            assert not taken(claim)
            stack.stop()
            assert taken(claim)


@pytest.mark.long
def test_worker_serves_others_while_one_waits_for_the_database(urls, folder):
    """The point of a gevent worker; lost if psycopg is imported too early."""
    manage(urls, "migrate", "--verbosity", "0")
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


@pytest.mark.long
def test_stack_that_cannot_start_says_why_at_once(urls, folder):
    with (
        Stack(folder, urls, extra={"WEB_CONNECTIONS": "many"}) as stack,
        pytest.raises(StackError, match=r"(?s)web does not start.*WEB_CONNECTIONS must be"),
    ):
        stack.start("web")


FILL = """
import os, sys
from pathlib import Path
from random import Random
import psycopg
from loadtest.faults import FAULTS, Target
from development.embedded import private_servers
from lab.stack.proxies import small_disk

with private_servers(disk=small_disk) as servers:
    if servers.disk is None:
        print("no disk")
        sys.exit()
    url = servers.urls.database
    data = str(servers.postgres.data)
    target = Target("", 0, url, data, "", "", disk=str(servers.disk))
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CREATE TABLE big (value text)")
        insert = "INSERT INTO big SELECT repeat('x', 999) FROM generate_series(1, 999)"
        fault = FAULTS["disk-full"](target, Random(1))
        fault.inject()
        print(fault.did["a write"])
        try:
            connection.execute(insert)
        except psycopg.Error as error:
            print(type(error).__name__)
    fault.heal()
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("INSERT INTO big VALUES ('fits')")
        print(*connection.execute("SELECT count(*) FROM big").fetchone())
"""


@pytest.mark.long
def test_full_disk_refuses_what_does_not_fit_until_healed() -> None:
    with private_folder() as folder:
        env = {**os.environ, "SHOP_DATA": str(folder)}
        said = succeed(sys.executable, "-c", FILL, env=env).split()
    assert said in (["DiskFull", "DiskFull", "1"], ["no", "disk"])
    assert os.geteuid() != 0 or sys.platform != "linux" or said[0] == "DiskFull"
    assert str(folder) not in Path("/proc/mounts").read_text(), "other processes do not see it"


@pytest.mark.parametrize("words", [("demo",), ("prove", "--buyers", "9")], ids=str)
def test_disk_with_too_little_room_is_refused_at_the_start(tmp_path, words):
    refuses_a_small_disk(tmp_path, *words)


@pytest.mark.parametrize("words", [("demo",), ("reset",), ("lesson",)], ids=str)
def test_read_only_folder_is_named(tmp_path, words):
    names_a_read_only_folder(tmp_path, *words)


@pytest.mark.parametrize(
    ("port", "message"), [("x", "a whole number"), ("65536", "from 1 to 65535")]
)
def test_port_that_is_invalid_is_reported_before_the_start(tmp_path, port, message):
    env = variables(SHOP_DATA=str(tmp_path / "data"), SHOP_PORT=port)
    done = run(*MANAGE, "demo", env=env)
    assert is_one_line(done), done.stderr
    assert message in done.stderr
    assert not (tmp_path / "data").exists()


def test_worker_that_ends_while_counted_stops_no_other(monkeypatch):
    with subprocess.Popen(["sleep", "60"]) as ends, subprocess.Popen(["sleep", "60"]) as stays:
        status = psutil.Process.status

        def ended(process):
            if process.pid == ends.pid:
                raise psutil.NoSuchProcess(process.pid)
            return status(process)

        monkeypatch.setattr(psutil.Process, "status", ended)
        alive = living_workers(ProcessState("web", "RUNNING", os.getpid()))
        assert stays.pid in alive
        assert ends.pid not in alive
        ends.kill()
        stays.kill()
