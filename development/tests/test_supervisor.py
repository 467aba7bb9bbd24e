"""Supervised processes are kept alive, none is left behind, and each has a port of its own."""

import os
import signal
import socket
import subprocess
import sys

import psutil
import pytest

from development import StackError, leftovers
from development.leftovers import private_folder
from development.ports import asked_or_free, is_free, next_free, release
from development.supervisor import SOCKET_PATH_LIMIT, Program, Supervisor
from shop.environment import PROJECT
from shop.tests.processes import wait_for

SLEEPER = "import time; print('I am up', flush=True); time.sleep(600)"
STUBBORN = f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); {SLEEPER}"


def python(name: str, script: str, **options) -> Program:
    return Program(name=name, command=[sys.executable, "-c", script], **options)


@pytest.fixture
def supervisor():
    with private_folder() as folder:
        supervisor = Supervisor(folder / "programs")
        yield supervisor
        supervisor.stop()
        assert leftovers.find(folder) == []


def running(supervisor: Supervisor, name: str) -> bool:
    return supervisor.state(name).state == "RUNNING"


def test_supervisor_restarts_a_killed_process(supervisor):
    supervisor.start([python("sleeper", SLEEPER)], os.environ)
    wait_for(lambda: running(supervisor, "sleeper"))
    first = supervisor.state("sleeper").pid
    os.kill(first, signal.SIGKILL)
    wait_for(lambda: supervisor.state("sleeper").pid not in {0, first})
    wait_for(lambda: running(supervisor, "sleeper"))


def test_supervisor_shows_the_log_of_a_process_that_cannot_start(supervisor):
    supervisor.start([python("broken", "raise SystemExit('no such phone')")], os.environ)
    with pytest.raises(StackError, match=r"(?s)broken is not ready after 2 s.*no such phone"):
        supervisor.wait_until("broken", lambda: False, 2)


def test_supervisor_kills_a_process_that_ignores_its_end(supervisor):
    supervisor.start([python("stubborn", STUBBORN, stop_seconds=1)], os.environ)
    wait_for(lambda: "I am up" in supervisor.log_tail("stubborn"))
    supervisor.stop()
    assert leftovers.find(supervisor.folder) == []


@pytest.mark.parametrize("folder", ["100% my shop", "d" * 100])
def test_odd_signs_and_a_long_path_reach_the_process_unchanged(supervisor, folder):
    odd = Supervisor(supervisor.folder / folder)
    assert len(str(odd.socket)) <= SOCKET_PATH_LIMIT
    text = """100% "sure", isn't it; %(here)s"""
    script = "import os, sys, time; print(sys.argv[1], os.environ['TEXT']); sys.stdout.flush(); "
    program = Program(
        name="echo",
        command=[sys.executable, "-c", script + "time.sleep(600)", text],
        environment={"TEXT": "50% more"},
    )
    odd.start([program], os.environ)
    wait_for(lambda: odd.log_tail("echo"))
    assert odd.log_tail("echo") == f"{text} 50% more"
    odd.stop()


def test_supervisor_clears_away_what_a_killed_one_left(supervisor):
    supervisor.start([python("sleeper", SLEEPER)], os.environ)
    wait_for(lambda: running(supervisor, "sleeper"))
    orphan = psutil.Process(supervisor.state("sleeper").pid)
    psutil.Process(orphan.ppid()).kill()
    wait_for(lambda: not supervisor.is_running())
    assert orphan in leftovers.find(supervisor.folder)

    heir = Supervisor(supervisor.folder)
    heir.start([python("sleeper", SLEEPER)], os.environ)
    wait_for(lambda: running(heir, "sleeper"))
    assert orphan not in leftovers.find(supervisor.folder)
    heir.stop()


def test_port_that_is_asked_for_is_used_or_named(monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        monkeypatch.setenv("SHOP_PORT", str(port))
        with pytest.raises(StackError, match=f"Port {port}, set in SHOP_PORT, is in use"):
            asked_or_free("SHOP_PORT")
    assert asked_or_free("SHOP_PORT") == port


@pytest.mark.parametrize("port", ["0", "65536"])
def test_port_that_is_impossible_is_named(monkeypatch, port):
    monkeypatch.setenv("SHOP_PORT", port)
    with pytest.raises(StackError, match=f"SHOP_PORT must be a port from 1 to 65535, not {port}"):
        asked_or_free("SHOP_PORT")


def test_port_in_use_is_replaced_by_a_free_one(monkeypatch):
    monkeypatch.delenv("SHOP_PORT", raising=False)
    first = asked_or_free("SHOP_PORT")
    with socket.create_server(("127.0.0.1", first)):
        second = asked_or_free("SHOP_PORT")
    assert second > first
    assert is_free(second)


def test_ports_of_two_commands_at_once_differ():
    script = """
import sys
from development.ports import next_free
print(next_free(int(sys.argv[1])), flush=True)
sys.stdin.readline()
"""
    first = next_free(28000)
    command = [sys.executable, "-c", script, str(first)]
    with subprocess.Popen(
        command, cwd=PROJECT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout is not None
        claimed = int(other.stdout.readline())
        assert claimed > first
        assert is_free(claimed)  # although nothing listens there yet:
        above = next_free(claimed)
        assert above > claimed
        other.kill()
    release(first, above)
    assert next_free(first) == first
    release(first)
