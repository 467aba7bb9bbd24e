"""A rush on a real PostgreSQL finds what is wrong with a stock, and nothing in a right one."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from typing import Any

import psycopg
import pytest

from course import rush
from course.judge import says
from course.lesson import find
from course.rush import Job, RushResult, WebServer
from course.tests.conftest import lesson_command as command

SOLUTION = find("21").solution.read_text()

SERVERS = 2
PATIENCE = 60.0
"""Seconds that one waits for the other."""


@pytest.fixture
def rushed(postgres, monkeypatch):
    """Return what lets a few buyers rush a file, in a lesson."""
    monkeypatch.setattr(rush, "BUYERS", 60)
    monkeypatch.setattr(rush, "STOCK", 20)
    monkeypatch.setattr(rush, "SERVERS", SERVERS)

    def run(lesson: str, source: str) -> RushResult:
        chosen = find(lesson)
        assert chosen.plan.rush is not None
        return rush.rush(Job(chosen, chosen.plan.rush, source, "f.py", postgres, "en"))

    return run


def figures(result: RushResult) -> Mapping[str, float]:
    assert not result.error, result
    assert not result.unheld, result
    return result.counts


@pytest.fixture
def all_read_first(monkeypatch):
    """Let each web server wait after its first statement until all have executed theirs."""
    execute, met = WebServer._execute, set()
    all_here = threading.Barrier(SERVERS)

    def execute_and_meet(server: WebServer, *arguments: Any) -> dict[str, Any]:
        found = execute(server, *arguments)
        if server not in met:
            met.add(server)
            all_here.wait(PATIENCE)
        return found

    monkeypatch.setattr(WebServer, "_execute", execute_and_meet)


@pytest.mark.long
@pytest.mark.usefixtures("all_read_first")
def test_rush_finds_that_read_check_write_oversells(rushed):
    result = rushed("19", find("19").start.read_text())
    assert figures(result)["oversold"] > 0, result
    assert not result.passed


@pytest.mark.parametrize(
    ("lesson", "wrong"),
    [("20", "doubled"), pytest.param("21", "false", marks=pytest.mark.long)],
)
def test_rush_finds_the_flaw_that_each_later_step_starts_with(rushed, lesson, wrong):
    result = rushed(lesson, find(lesson).start.read_text())
    assert figures(result)[wrong] > 0, result
    assert not result.passed


def test_rush_of_the_solution_sells_all_once_and_answers_truly(rushed, postgres):
    result = rushed("21", SOLUTION)
    assert result.passed, result
    counts = figures(result)
    assert counts["sold"] == 20
    assert counts["requests"] >= 90
    assert counts["lost"] > 0
    assert "60 buyers" in rush.summary(result, says("en"))
    with psycopg.connect(postgres) as connection:
        left = connection.execute(
            "SELECT count(*) FROM pg_namespace WHERE nspname = %s", (rush.SCHEMA,)
        ).fetchone()
    assert left == (0,)


@pytest.mark.parametrize(
    ("line", "error"),
    [
        ("connection.execute('SELECT usename FROM pg_user')", "UndefinedTable"),
        *(
            pytest.param(*case, marks=pytest.mark.long)
            for case in (
                ("connection.execute('DROP TABLE item')", "this database knows SELECT"),
                ("connection.execute('SELECT pg_sleep(9)')", "this database knows SELECT"),
                ("open('/tmp/x', 'w')", "NameError"),
                ("1 / 0", "f.py, line "),
            )
        ),
    ],
)
def test_rush_reports_the_error_of_a_file_that_breaks_its_rules(rushed, line, error):
    assert SOLUTION.count("        if not connection.execute(ORDER") == 1
    source = SOLUTION.replace(
        "        if not connection.execute(ORDER",
        f"        {line}\n        if not connection.execute(ORDER",
    )
    result = rushed("21", source)
    assert error in result.error, result
    assert not result.passed


def test_second_rush_on_a_database_is_refused(postgres):
    with psycopg.connect(postgres) as connection:
        connection.execute("SELECT pg_advisory_lock(%s)", (rush.LOCK,))
        held = rush.hold(find("19"), SOLUTION, "f.py", postgres)
    assert "another rush" in held.unheld
    nowhere = f"host={os.devnull} dbname=none"
    assert "the judge itself failed" in rush.hold(find("19"), SOLUTION, "f.py", nowhere).unheld


@pytest.mark.long
def test_lesson_command_rushes_what_the_simulator_cannot_break(capsys, tmp_path, monkeypatch):
    mine = tmp_path / "stock.py"
    mine.write_text(SOLUTION)
    counts = dict.fromkeys(
        ("buyers", "requests", "servers", "stock", "sold", "sold_out", "lost"), 1
    )
    counts |= dict.fromkeys(("oversold", "doubled", "false", "seconds"), 0)
    result = RushResult(counts=counts)
    monkeypatch.setattr("course.management.commands.lesson.hold", lambda *_: result)
    monkeypatch.setattr("course.management.commands.lesson.database", str)
    assert command("19", "--mine", str(mine)) == 0
    assert f"--mine {mine} --rush" in capsys.readouterr().out
    assert command("19", "--mine", str(mine), "--rush") == 0
    assert "A rush on PostgreSQL: 1 buyers" in capsys.readouterr().out
    result = RushResult(problems=("more orders than units",), counts=counts)
    assert command("19", "--mine", str(mine), "--rush") == 1
    assert "more orders than units" in capsys.readouterr().out
    assert command("1", "--mine", str(mine), "--rush") == 2
    assert command("19", "--rush") == 2
