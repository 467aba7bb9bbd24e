"""What commands print is whole on a terminal of 80 columns, and of 120."""

from __future__ import annotations

import subprocess
from collections import Counter

import pytest
from rich.markdown import Markdown

from inventory.audit import Book
from lab import environment
from lab.bench import show
from lab.bench.cpu import CpuTime
from lab.bench.observed import METRICS, PLAIN, TRACES
from lab.bench.rows import rows
from lab.bench.run import Measured, Sample
from lab.bench.scaling import report
from lab.bench.sold import Sold
from lab.locks.exercises.catalogue import SHOP, exercise
from lab.locks.lessons import LESSONS
from lab.locks.simulator.cli import main
from lab.management.commands import walk as walk_command
from lab.proof import soak_summary
from lab.walk.walk import Walk
from loadtest.checker import PROPERTIES
from loadtest.faults import FAULTS
from shop.audit import Report
from shop.management.commands import audit as audit_command
from shop.tests.screens import WIDTHS, assert_whole, screen

MAX_FILE = max(
    (
        str(path.relative_to(environment.PROJECT))
        for path in environment.PROJECT.glob("shop/**/*.py")
    ),
    key=len,
)


@pytest.fixture(params=WIDTHS)
def width(request, monkeypatch):
    """Give the commands a terminal of this width."""
    monkeypatch.setenv("COLUMNS", str(request.param))
    return request.param


def test_make_help():
    """The Makefile's texts do not wrap, and every target that people call is there."""
    done = subprocess.run(
        ["make", "help"], cwd=environment.PROJECT, capture_output=True, text=True, check=True
    )
    assert_whole(done.stdout, 80, "prove duel bench-locks messages clean")


def test_the_list_of_lessons(width, capsys):
    assert main(["lesson"]) == 0
    assert_whole(capsys.readouterr().out, width, *(each.slug for each in LESSONS))


@pytest.mark.parametrize("lesson", LESSONS, ids=lambda lesson: lesson.slug)
def test_a_lesson(lesson, width, capsys):
    assert main(["lesson", lesson.slug]) == 0
    assert_whole(capsys.readouterr().out, width, lesson.docstring)


@pytest.mark.parametrize("lesson", [*LESSONS, *SHOP], ids=lambda lesson: lesson.slug)
def test_the_hint_of_an_exercise(lesson, width, capsys):
    assert main(["lesson", lesson.slug, "--hint"]) == 0
    assert_whole(capsys.readouterr().out, width, exercise(lesson).hint)


def test_the_table_of_a_benchmark(width):
    sample = Sample(12_345.6, 1_234.5, 12_345.6, 99_999, 9_999, 0, 12_345, 12_345, 1_234)
    measured = [Measured(row, [sample], 123.4) for row in rows(256, 2000)]
    names = (each.row.name for each in measured)
    assert_whole(screen(width, show.table(measured)), width, *names, "12,346 12,345.6 Redis µs")


def test_the_table_of_what_watching_costs(width):
    samples = [Sold(12_345, 12_345.6, CpuTime(99, 99, 99))]
    sold = {PLAIN: samples, METRICS: samples, TRACES: samples}
    assert_whole(screen(width, show.observed(sold)), width, *sold, "12,346 1.000")


def test_the_tables_of_the_scaling_model(width):
    row = "| 16 | 256 | 1,000 | 2,000 | 123,456 | 256 | 123,456 | 256 | +10% (fitted) |"
    tables = show.from_markdown(["Title (hint):", "", *report.checked_table([]), row])
    text = screen(width, *tables)
    assert_whole(text, width, "Title (hint): 123,456 +10% (fitted) processes measured")


def test_the_table_of_a_walk(width):
    walk = Walk("a purchase", Counter({MAX_FILE: 12_345}), 158)
    assert_whole(screen(width, walk_command._table(walk)), width, MAX_FILE, "12345")


def test_the_table_of_an_audit(width, capsys):
    book = Book(1_234_567, *[1_000_000_000] * 6)
    problem = "Item 7: 12 units are available, but the ledger adds up to 13."
    audit_command._show(Report([book], [problem], [problem], [problem]))
    assert_whole(capsys.readouterr().out, width, "Confirmed Oversold 1000000000", problem)


def test_the_summary_of_a_soak(width):
    summary = {
        "counts": dict.fromkeys(("ok", "fail", "info", "orders", "oversold"), 1_445_365),
        "verdicts": {"pass": 16, "fail": 0, "unknown": 0},
        "rounds": 16,
        "seconds": 3840,
        "seed": 7,
        "operations": 1_445_365,
        "faults": 629,
        "by_strategy": {"combining": 9},
        "by_mix": {"all": 9},
        "by_fault": {name: {"times": 123, "longest": 123.45, "median": 12.34} for name in FAULTS},
        "left_out": {},
        "by_property": {
            f"{each.id} {each.name}": {"pass": 16, "fail": 0, "unknown": 0}
            for each in PROPERTIES.values()
        },
        "not_passed": [],
    }
    text = screen(width, Markdown(soak_summary.markdown(summary)))
    assert_whole(text, width, *FAULTS, *(each.name for each in PROPERTIES.values()), "1,445,365")
