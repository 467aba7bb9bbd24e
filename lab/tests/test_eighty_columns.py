"""What commands print is whole on a terminal of 80 columns, and of 120."""

from __future__ import annotations

import io
import json
from collections import Counter

import pytest
from rich.cells import cell_len
from rich.console import Console, RenderableType

from course.lesson import lessons
from course.tests.conftest import lesson_command as command
from inventory.audit import Book
from lab import environment
from lab.bench.growth import GROWTH
from lab.bench.judged import STRATEGIES
from lab.bench.locks import LOCKS
from lab.bench.rows import rows
from lab.bench.run import PURCHASES, Measured, Sample
from lab.management.commands import walk as walk_command
from lab.walk import Walk
from shop.audit import Report
from shop.management.commands import audit as audit_command
from shop.tests.processes import succeed

SOURCES = environment.PROJECT.glob("shop/**/*.py")
MAX_FILE = max((str(path.relative_to(environment.PROJECT)) for path in SOURCES), key=len)


WIDTHS = (80, 120)


def assert_whole(text: str, width: int, *words: str) -> None:
    """Assert that no line is too long, no cell is cut, and these texts' words are all there."""
    long = [line for line in text.splitlines() if cell_len(line) > width]
    there = text.split()
    cut = [word for word in there if word.endswith("…") and word != "…"]  # SQL has one of its own
    missing = [word for each in words for word in each.split() if word not in there]
    assert (long, cut, missing) == ([], [], []), text


def screen(width: int, *shown: RenderableType) -> str:
    """Return what a terminal of this width shows."""
    console = Console(file=io.StringIO(), width=width)
    console.print(*shown, sep="\n")
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


@pytest.fixture(params=WIDTHS)
def width(request, monkeypatch):
    """Give the commands a terminal of this width."""
    monkeypatch.setenv("COLUMNS", str(request.param))
    return request.param


def test_make_help():
    assert_whole(succeed("make", "help"), 80, "prove duel bench-locks messages clean")


def test_the_list_of_lessons(width, capsys):
    assert command() == 0
    out = capsys.readouterr().out
    assert_whole(out, width, *(each.slug for each in lessons()))
    assert out.count("cannot fail") == 1


@pytest.mark.parametrize("lesson", lessons(), ids=lambda lesson: lesson.slug)
def test_a_lesson_and_the_hint_of_its_exercise(lesson, width, capsys):
    text = lesson.text["en"]
    found = "" if lesson.slug == "unique-index" else "✗ Fixed by The failure does not occur."
    for words, shown in (([], f"{text.intro} {found}"), (["--hint"], text.hint)):
        assert command(lesson.slug, *words) == 0
        assert_whole(capsys.readouterr().out, width, shown)


def test_the_table_of_a_benchmark(width):
    sample = Sample(12_345.6, 1_234.5, 12_345.6, 99_999, 9_999, 0, 12_345, 12_345, 1_234, 256, 123)
    measured = [Measured(row, [sample]) for row in rows(256, 2000)]
    document = {"rows": [each.to_json() for each in measured]}
    names = (each.row.name for each in measured)
    assert_whole(screen(width, PURCHASES.screen(document)), width, *names, "12,346 12,345.6 Redis")


@pytest.mark.parametrize("benchmark", [GROWTH, STRATEGIES, LOCKS], ids=lambda each: each.name)
def test_the_table_of_another_benchmark(width, benchmark):
    path = environment.PROJECT / "docs" / f"{benchmark.name}.json"
    document = json.loads(path.read_text())
    heads, *lines = benchmark.table(document)
    text = screen(width, benchmark.screen(document))
    assert_whole(text, width, *heads[0].split(), *(line[0].strip("`") for line in lines))


def test_the_table_of_a_walk(width):
    walk = Walk("a purchase", Counter({MAX_FILE: 12_345}), 158)
    assert_whole(screen(width, walk_command._table(walk)), width, MAX_FILE, "12345")


def test_the_table_of_an_audit(width, capsys):
    book = Book(1_234_567, *[1_000_000_000] * 6)
    problem = "Item 7: 12 units are available, but the ledger adds up to 13."
    audit_command._show(Report([book], [problem], [problem], [problem]))
    assert_whole(capsys.readouterr().out, width, "Confirmed Oversold 1000000000", problem)
