"""Failpoint orders: one process executes each, at exactly the failpoint that it names."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from inventory import failpoints
from lab.proof.sabotage import FailpointOrders

HIT = """
import sys
from inventory import failpoints
from lab.proof.sabotage import obey
obey(sys.argv[1])
for failpoint in sys.argv[2:]:
    failpoints.hit(failpoint)
"""


def passes(folder: Path, *points: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", HIT, str(folder), *points])


def test_without_an_order_nothing_happens(tmp_path):
    FailpointOrders(tmp_path)(failpoints.BEFORE_COMMIT)
    assert list(tmp_path.iterdir()) == []


def test_of_two_processes_one_is_killed_and_the_file_names_it(tmp_path):
    (tmp_path / failpoints.AFTER_COMMIT).write_text("kill")
    both = [passes(tmp_path, failpoints.BEFORE_COMMIT, failpoints.AFTER_COMMIT) for _ in range(2)]
    codes = {process.pid: process.wait(30) for process in both}
    assert sorted(codes.values()) == [-signal.SIGKILL, 0]
    [taken] = tmp_path.iterdir()
    assert codes[int(taken.suffix[1:])] == -signal.SIGKILL


def test_a_stopped_process_goes_on_when_continued(tmp_path):
    (tmp_path / failpoints.LOCKED).write_text("stop")
    process = passes(tmp_path, failpoints.LOCKED)
    pid, status = os.waitpid(process.pid, os.WUNTRACED)
    assert (pid, os.WIFSTOPPED(status)) == (process.pid, True)
    process.send_signal(signal.SIGCONT)
    assert process.wait(30) == 0
