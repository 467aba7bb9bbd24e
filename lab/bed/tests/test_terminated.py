"""A proof that is told to end in the middle of a fault leaves nothing behind."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from lab import environment
from loadtest.faults.fault import lives, wait_until
from loadtest.faults.hosts import Host, ip
from shop.tests.processes import wait_for

pytestmark = [
    pytest.mark.long,
    pytest.mark.nightly,
    pytest.mark.hosts,
    pytest.mark.timeout(400),
]

ENDED = 143
"""Exit code after SIGTERM."""


def test_a_terminated_proof_removes_its_hosts_and_does_not_heal_its_fault_first(tmp_path: Path):
    command = [sys.executable, "manage.py", "prove", "--bed", "patroni", "--buyers", "20"]
    files, said = tmp_path / "files", tmp_path / "said"
    command += ["--seed", "7", "--fault", "postgres-primary-lost", "--jsonl", str(files)]
    with said.open("w") as file:
        process = subprocess.Popen(
            command, cwd=environment.PROJECT, stdout=file, stderr=subprocess.STDOUT
        )
    with process:
        try:
            wait_until("the shop sells", lambda: "selling" in said.read_text(), 200)
            # Seen at the host itself: the next line of the output may come when it is healed.
            wait_until("the primary's host dies", lambda: a_database_is_dead(process.pid))
            there = processes(process.pid)
            process.terminate()
            assert process.wait(120) == ENDED, said.read_text()
        finally:
            process.kill()
    assert there
    wait_for(lambda: not any(map(lives, there)))
    assert namespaces(process.pid) == []
    assert (files / "faults.log").read_text() == "", "nobody waited until it was healed"


def a_database_is_dead(pid: int) -> bool:
    """Whether nothing runs on one of a bed's hosts of PostgreSQL."""
    databases = [name for name in namespaces(pid) if "-db" in name]
    return not all(Host(name, name, "").processes() for name in databases)


def processes(pid: int) -> list[psutil.Process]:
    """Return what runs on the hosts of a process' bed."""
    return [each for name in namespaces(pid) for each in Host(name, name, "").processes()]


def namespaces(pid: int) -> list[str]:
    """Return the namespaces that a process has made."""
    names = [line.split()[0] for line in ip("netns", "list").splitlines()]
    return [name for name in names if name.startswith(f"bed-{pid}-")]
