"""Marked points: a process obeys at exactly one, and only where it was asked to."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from inventory import marks

REACH = """
import sys
from django.conf import settings
settings.configure(INVENTORY_MARKS=sys.argv[1])
from inventory import marks
for point in sys.argv[2:]:
    marks.reach(point)
"""


def passes(folder: Path, *points: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", REACH, str(folder), *points])


def test_without_a_folder_nothing_happens(settings):
    settings.INVENTORY_MARKS = ""
    marks.reach(marks.BEFORE_COMMIT)


def test_without_an_order_nothing_happens(settings, tmp_path):
    settings.INVENTORY_MARKS = str(tmp_path)
    marks.reach(marks.BEFORE_COMMIT)
    assert list(tmp_path.iterdir()) == []


def test_of_two_who_come_by_one_is_killed_and_says_who(tmp_path):
    (tmp_path / marks.AFTER_COMMIT).write_text("kill")
    both = [passes(tmp_path, marks.BEFORE_COMMIT, marks.AFTER_COMMIT) for _ in range(2)]
    codes = {process.pid: process.wait(30) for process in both}
    assert sorted(codes.values()) == [-signal.SIGKILL, 0]
    [taken] = tmp_path.iterdir()
    assert codes[int(taken.suffix[1:])] == -signal.SIGKILL


def test_who_is_told_to_stop_goes_on_when_continued(tmp_path):
    (tmp_path / marks.LOCKED).write_text("stop")
    process = passes(tmp_path, marks.LOCKED)
    pid, status = os.waitpid(process.pid, os.WUNTRACED)
    assert (pid, os.WIFSTOPPED(status)) == (process.pid, True)
    process.send_signal(signal.SIGCONT)
    assert process.wait(30) == 0
