"""`manage.py demo` starts, heals, and leaves nothing running however it ends."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
from pathlib import Path
from typing import ClassVar

import psutil
import psycopg
import pytest
from django.db import connection

from development import leftovers
from development.embedded import EmbeddedServers
from development.leftovers import private_folder
from development.processes import serves
from development.supervisor import Supervisor
from development.tests.test_system_errors import MANAGE
from development.tests.test_system_errors import variables as alone
from lab import environment
from lab.stack.demo import pool_closed
from lab.stack.stack import TARGET
from loadtest.fault_needs import DATABASE_PROXY, REDIS_PROXY
from loadtest.faults import Target
from shop.tests.processes import run, wait_for

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]

OPEN = "The shop is open"


@pytest.mark.django_db(transaction=True)
def test_demo_leaves_no_pool_thread_that_logs_to_the_terminal():
    with pool_closed():
        connection.ensure_connection()
    assert not connection.pools()  # type: ignore[attr-defined]


class RunningDemo:
    """A demo with its data in `folder`, as the leader of a process group.

    Its arguments are `words`, by default `--no-proof`.
    """

    started: ClassVar[list[RunningDemo]] = []

    def __init__(
        self,
        folder: Path,
        *words: str,
        stdout: int | None = None,
        **variables: str,
    ) -> None:
        self.folder = folder
        self.log = folder.parent / "demo.out"
        with self.log.open("wb") as output:
            self.process = subprocess.Popen(
                [*MANAGE, "demo", *(words or ["--no-proof"])],
                cwd=environment.PROJECT,
                env=alone(SHOP_DATA=str(folder), COLUMNS="200", **variables),
                stdin=subprocess.DEVNULL,
                stdout=output if stdout is None else stdout,
                stderr=subprocess.STDOUT,
                process_group=0,
            )
        self.started.append(self)

    @property
    def shown(self) -> str:
        return self.log.read_text()

    @property
    def url(self) -> str:
        found = re.search(r"http://127\.0\.0\.1:\d+", self.shown)
        assert found, self.shown
        return found[0]

    def wait_until_open(self) -> None:
        wait_for(lambda: OPEN in self.shown or self.process.poll() is not None, 180)
        assert OPEN in self.shown, self.shown

    def end(self, number: signal.Signals) -> int:
        """Send a signal as a terminal does, to the whole group; return the exit code."""
        os.killpg(self.process.pid, number)
        return self.process.wait(60)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(60)


@pytest.fixture
def folder():
    with private_folder() as parent:
        try:
            yield parent / "data"
            left = leftovers.find(parent)
        finally:
            # A failed test must leave nothing running during the next tests.
            for demo in RunningDemo.started:
                if demo.process.poll() is None:
                    print(demo.shown)
                    demo.kill()
            RunningDemo.started.clear()
            leftovers.stop(parent)
        assert left == []


def test_demo_stops_everything_and_keeps_its_data(folder):
    killed = RunningDemo(folder, "--proof", "--buyers 20 --stock 5")
    killed.wait_until_open()
    assert "not vacuous" in killed.shown
    killed.kill()
    orphans = leftovers.find(folder / "demo")
    assert orphans

    kept = []
    for number, code, more in (
        (signal.SIGINT, 0, ("--verbosity", "1")),
        (signal.SIGTERM, 143, ("--no-proof",)),
        (signal.SIGHUP, 129, ("--no-proof", "--breakable")),
    ):
        demo = RunningDemo(folder, *more)
        demo.wait_until_open()
        assert not set(orphans) & set(leftovers.find(folder)), "what a killed demo left"
        assert serves(f"{demo.url}/readyz")
        there = Target.read(folder / "demo" / TARGET).has()
        assert (there >= {REDIS_PROXY, DATABASE_PROXY}) is ("--breakable" in more)
        with psycopg.connect(EmbeddedServers(folder / "servers").urls.database) as client:
            database = client.execute("SELECT system_identifier FROM pg_control_system()")
            kept.append((database.fetchone(), (folder / "secret-key").read_text()))
        assert demo.end(number) == code
        assert "Everything is stopped." in demo.shown
        assert leftovers.find(folder) == []
        if "--verbosity" in more:
            assert "not vacuous" not in demo.shown
            assert "PROVED · 5 of 5 sold to 20 buyers · 0 oversold · " in demo.shown
            assert re.search(r'Repeat: make prove ARGS="--buyers 20 --stock 5 .*"', demo.shown)
    assert kept == [kept[0]] * 3

    # Like `make demo | tee log`: Ctrl-C ends tee first, and the next line hits a broken pipe.
    piped = RunningDemo(folder, stdout=subprocess.PIPE)
    output = piped.process.stdout
    assert output is not None
    assert any(OPEN.encode() in line for line in output)
    output.close()
    piped.end(signal.SIGINT)


@pytest.mark.parametrize("stage", ["servers", "demo"])
def test_demo_stops_everything_after_ctrl_c_during_its_start(folder, stage):
    demo = RunningDemo(folder)
    wait_for(lambda: leftovers.find(folder / stage))
    demo.end(signal.SIGINT)
    assert OPEN not in demo.shown
    assert "Traceback" not in demo.shown
    assert leftovers.find(folder) == []


def manage(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run a command as a user does, with the data in a folder and no other servers."""
    return run(*MANAGE, *words, env=alone(SHOP_DATA=str(folder), SHOP_DEMO="1"))


def test_commands_may_be_run_first_on_a_fresh_machine(folder):
    made = manage(folder, "create_sale", "--stock", "5", "--json")
    assert json.loads(made.stdout) == {"sale": 1, "item": 1}, made.stderr
    audited = json.loads(manage(folder, "audit", "--json").stdout)
    assert (audited["balanced"], [item["total"] for item in audited["items"]]) == (True, [5])


def test_demo_heals_is_audited_and_protects_its_folder_and_port(folder):
    demo = RunningDemo(folder)
    demo.wait_until_open()
    audited = json.loads(manage(folder, "audit", "--json").stdout)
    assert (audited["balanced"], audited["unchecked"]) == (True, []), "it asked the provider"

    second = manage(folder, "demo")
    assert second.returncode == 1
    assert "A demo is already running" in second.stderr
    stranger = folder / "not-ours.txt"
    stranger.touch()
    refused = manage(folder, "reset")
    assert refused.returncode == 1
    assert "in use" in refused.stderr
    with private_folder() as parent:
        port = demo.url.rpartition(":")[2]
        elsewhere = RunningDemo(parent / "data", SHOP_PORT=port)
        assert elsewhere.process.wait(60) == 1
        assert f"Port {port}, set in SHOP_PORT, is in use" in elsewhere.shown
        assert leftovers.find(parent) == []

    servers, shop = Supervisor(folder / "servers"), Supervisor(folder / "demo")
    worker = psutil.Process(shop.state("web").pid).children()[0].pid
    victims = {
        f"web: worker {worker} died": worker,
        f"valkey (pid {servers.state('valkey').pid}) died": servers.state("valkey").pid,
        f"postgres (pid {servers.state('postgres').pid}) died": servers.state("postgres").pid,
    }
    for pid in victims.values():
        os.kill(pid, signal.SIGKILL)
    expected = [*victims, "valkey is running again", "postgres is running again"]
    wait_for(lambda: all(line in demo.shown for line in expected))
    for name in ("web", "celery"):  # their masters
        os.kill(shop.state(name).pid, signal.SIGKILL)
    again = ("web is running again", "celery is running again")
    wait_for(lambda: all(line in demo.shown for line in again))
    wait_for(lambda: serves(f"{demo.url}/readyz"))

    assert demo.end(signal.SIGINT) == 0
    assert json.loads(manage(folder, "audit", "--json").stdout)["unchecked"] != []
    assert manage(folder, "reset").returncode == 0
    assert not (folder / "servers" / "postgres").exists()
    assert not (folder / "secret-key").exists()
    assert stranger.exists()
