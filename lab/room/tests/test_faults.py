"""Faults by a click: a server that is held down stays away, an armed fault may never strike."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from random import Random
from typing import Any

import psutil
import pytest

from development.leftovers import private_folder
from development.supervisor import Program, Supervisor
from lab.room import faults
from lab.room.faults import FaultControl, HeldDown
from lab.room.readings import PROGRAMS, Programs
from lab.room.room import Room, curves
from loadtest.faults import Fault, FaultFailed, Target
from shop.tests.processes import wait_for

SLEEPS = [sys.executable, "-c", "import time; time.sleep(1000)"]


def a_target(folder: Path) -> Path:
    path = folder / "target.json"
    Target("", 0, "", "", "", "").write(path)
    return path


@pytest.fixture
def supervisor():
    with private_folder() as folder:
        supervisor = Supervisor(folder)
        supervisor.start([Program(name, SLEEPS) for name in PROGRAMS], os.environ)
        yield supervisor
        supervisor.stop()


class Nothing(Fault):
    name = what = expected = "nothing"

    def inject(self) -> None:
        pass

    def heal(self) -> None:
        pass


def codes(room: Room) -> list[str]:
    return [event["code"] for event in room.timeline.since(0)]


def test_held_down_program_stays_away_until_it_is_healed(supervisor):
    wait_for(lambda: supervisor.state("mail").state == "RUNNING")
    nothing = Nothing(Target("", 0, "", "", "", ""), Random())
    held = HeldDown(nothing, supervisor, "mail")
    held.inject()
    [killed] = held.did["killed"]
    wait_for(lambda: not psutil.pid_exists(killed))  # somebody has waited for it
    wait_for(lambda: supervisor.state("mail").state == "STOPPED")  # which is not restarted
    with pytest.raises(FaultFailed, match="mail is not running"):
        HeldDown(nothing, supervisor, "mail").inject()
    held.heal()
    wait_for(lambda: supervisor.state("mail").state == "RUNNING")


def test_room_shows_a_missing_program_and_restores_it(supervisor):
    target = a_target(supervisor.folder)
    wait_for(lambda: all(each["up"] for each in Programs(target).read().values()))
    room = Room(Programs(target).read)

    def look() -> dict[str, Any]:
        room.sources["programs"].step()
        room.step()
        return room.next(0)[1]["programs"]

    assert look()["celery"]["up"]
    supervisor.stop_program("celery")
    assert (look()["celery"]["up"], look()["celery"]["pid"], look()["mail"]["up"]) == (
        False,
        0,
        True,
    )
    FaultControl(target, supervisor.folder, room).restore()
    wait_for(lambda: look()["celery"]["up"])
    assert codes(room) == ["program_gone", "program_new"]


def test_room_lets_go_on_at_its_start_what_was_paused(supervisor):
    target = a_target(supervisor.folder)
    wait_for(lambda: supervisor.state("mail").state == "RUNNING")
    mail = psutil.Process(supervisor.state("mail").pid)
    mail.suspend()  # and the room is killed
    target.with_name("fault").write_text("redis-paused")
    FaultControl(target, supervisor.folder, Room()).restore()
    wait_for(lambda: mail.status() != psutil.STATUS_STOPPED)
    assert not target.with_name("fault").exists()


class NeverReached(Nothing):
    def inject(self) -> None:
        raise FaultFailed("no worker reached before-commit")


@pytest.fixture
def unreached(monkeypatch, tmp_path: Path):
    """A control whose armed fault nothing ever reaches."""
    monkeypatch.setitem(faults.FAULTS, "web-killed-before-commit", NeverReached)
    monkeypatch.setattr(faults, "is_armed", lambda name: True)
    room = Room()
    return room, FaultControl(a_target(tmp_path), tmp_path, room)


def test_armed_fault_that_is_called_off_leaves_no_band(unreached):
    room, control = unreached
    control.inject("web-killed-before-commit", 1)
    wait_for(lambda: codes(room) == ["fault_armed"])
    room.step()
    frame = room.next(0)[1]
    assert frame["fault"]["phase"] == "armed"
    assert curves(frame)["fault"] is None
    control.task.stop()
    assert codes(room) == ["fault_armed", "fault_called_off"]
    room.step()
    assert "fault" not in room.next(0)[1]


def test_armed_fault_that_nothing_reaches_says_so(unreached, monkeypatch):
    room, control = unreached
    monkeypatch.setattr(faults, "ARMED", 0.0)
    control.inject("web-killed-before-commit", 1)
    wait_for(lambda: "fault_unused" in codes(room))
    control.task.stop()
    room.step()
    assert room.next(0)[1]["fault_over"]["code"] == "fault_unused"
