"""The shop's log of a run: its errors, the same one counted once."""

from __future__ import annotations

import io
from pathlib import Path

from rich.console import Console

from lab.proof import show
from lab.proof.result import Result
from lab.proof.server_errors import MOST, ServerErrors
from loadtest.steps import RunPlan

FAILED = """\
2026-11-21 10:00:00,{ms} ERROR 17 shop.api.operations: failed: POST /api/v1/sales/1/orders
Traceback (most recent call last):
  File "a.py", line 1, in execute
    run()
psycopg.errors.NotNullViolation: first
DETAIL:  Failing row contains ({order}).

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "b.py", line 2, in view
    buy()
django.db.utils.IntegrityError: null value in column "note" of order {order}
DETAIL:  Failing row contains ({order}).
"""
FINE = "2026-11-21 10:00:01,000 INFO 17 shop: ERROR is only a word here\n"
GUNICORN = (
    "[2026-11-21 10:00:02 +0000] [17] [ERROR] Error handling request /\n"
    "Traceback (most recent call last):\n"
    '  File "c.py", line 3, in run\n'
    "OSError: bad descriptor\n"
)


def write(log: Path, text: str) -> None:
    with log.open("a") as file:
        file.write(text)


def test_errors_of_this_run_are_counted_by_kind(tmp_path):
    log = tmp_path / "web.log"
    write(log, FAILED.format(ms="001", order=1).replace("IntegrityError", "OfAnEarlierRun"))
    errors = ServerErrors(log)
    for order in range(3):
        write(log, FAILED.format(ms=f"{order:03}", order=order) + FINE)
    write(log, GUNICORN)
    write(log, "2026-11-21 10:00:03,000 CRITICAL 18 shop: not a whole li")
    errors.close()
    assert errors.told() == [
        '3 × django.db.utils.IntegrityError: null value in column "note" of order 0',
        "1 × OSError: bad descriptor",
    ]
    kept = errors.keep(tmp_path)
    assert kept is not None
    assert kept.read_text() == FAILED.format(ms="000", order=0) + GUNICORN


def test_a_log_that_is_rotated_is_read_whole(tmp_path):
    log = tmp_path / "web.log"
    write(log, "")
    errors = ServerErrors(log)
    half = len(GUNICORN) // 2
    write(log, GUNICORN[:half])
    log.rename(tmp_path / "web.log.1")
    write(log, GUNICORN[half:])
    write(log, FAILED.format(ms="000", order=7) + GUNICORN)
    errors.close()
    assert [error.times for error in errors.found.values()] == [2, 1]


def test_many_kinds_of_errors_are_told_in_few_lines(tmp_path):
    log = tmp_path / "web.log"
    errors = ServerErrors(log)
    for letter in "abcdefgh":
        write(log, f"2026-11-21 10:00:03,000 ERROR 18 shop: {letter}\n")
    errors.close()
    assert len(errors.told()) == MOST + 1
    assert errors.told()[-1] == "and 3 other errors"


def test_without_a_log_nothing_is_told(tmp_path):
    errors = ServerErrors(None)
    errors.close()
    assert errors.told() == []
    assert errors.keep(tmp_path) is None


def test_a_proof_that_failed_shows_what_the_shop_logged(tmp_path):
    plan = RunPlan(buyers=10, seed=1, stock=5)
    result = Result(1, None, 0.0, "no final read", problems=["ValueError: x"], log=tmp_path)
    document = result.to_json(plan)
    assert (document["problems"], document["log"]) == (["ValueError: x"], str(tmp_path))
    screen = io.StringIO()
    show.result(Console(file=screen, width=300), plan, result)
    assert "ValueError: x" in screen.getvalue()
    assert str(tmp_path) in screen.getvalue()
