"""The comparison's page explains every strategy and labels every figure."""

from __future__ import annotations

from typing import Any
from xml.etree import ElementTree

from django.core.management import call_command

from lab import environment
from lab.bench.compare import report
from lab.management.commands.compare import JSON, NOTES
from lab.strategies import CLASSES


def row(name: str, **sold: Any) -> report.Row:
    """Return a strategy's row, by default with a thousand units sold in two seconds."""
    sell_through = {
        "stock": 1000,
        "sold": 1000,
        "seconds": 2.0,
        "rate": 500.0,
        "p50_ms": 10.0,
        "p99_ms": 20.0,
        "refused": 3,
        "left": 0,
        "oversold": 0,
        "problems": 0,
    }
    return {
        "name": name,
        "summary": "",
        "safe": CLASSES[name].safe,
        "fenced": CLASSES[name].fenced,
        "sell_through": sell_through | sold,
        "redis_away": {"rate": 0.0, "refused": 9},
        "proof": {
            "verdict": "pass",
            "properties": [{"id": "P7", "verdict": "pass", "detail": ""}],
            "counts": {"oversold": 0},
            "faults": [{"fault": "redis-killed", "recovery": 0.4}],
        },
    }


def test_the_page_explains_every_strategy():
    notes = NOTES.read_text(encoding="utf-8")
    assert [name for name in CLASSES if f"\n| `{name}` |" not in notes] == []


def test_a_sell_through_that_did_not_finish_is_extended_and_says_so():
    cells = report.cells(row("guard", sold=400, left=600, rate=200.0))
    assert cells[4] == "about 5 s"
    assert cells[5:] == ["400", "600, time was up"]
    assert report.cells(row("guard"))[4] == "2.0 s"


def test_the_table_tells_the_same_units_oversold_as_the_chart():
    naive = row("naive", sold=170, left=994)
    naive["proof"]["counts"]["oversold"] = 136
    assert "**136**" in report.verdict(naive)
    [panel] = [each for each in report.panels([naive]) if each.title == "Oversold in a rush"]
    assert panel.values == [("naive", 136.0)]


def test_a_shop_that_believes_to_have_what_it_sold_stands_out():
    assert report.cells(row("naive", sold=170, left=994))[5:] == ["170", "**994** of 1,000"]
    assert report.cells(row("guard"))[5:] == ["1,000", "0"]


def test_the_committed_page_and_chart_are_those_of_the_committed_figures(tmp_path):
    docs = environment.PROJECT / "docs"
    (tmp_path / JSON).write_bytes((docs / JSON).read_bytes())
    call_command("compare", "--redraw", "--docs", str(tmp_path))
    for name in ("strategies.md", "strategies.svg"):
        assert (tmp_path / name).read_text() == (docs / name).read_text(), (
            "make compare ARGS=--redraw"
        )


def test_a_strategy_that_sells_nothing_never_sells_out():
    assert report.cells(row("redis_lock", sold=0, left=1000, rate=0.0))[4] == "never"


def test_the_verdict_names_what_is_broken_and_what_was_judged():
    broken = row("naive")
    broken["proof"] |= {
        "verdict": "fail",
        "properties": [
            {"id": "P1", "verdict": "fail", "detail": "9 oversold"},
            {"id": "P7", "verdict": "fail", "detail": "3 units left"},
        ],
        "faults": [],
    }
    assert report.verdict(broken)[1:] == [
        "**no**",
        "no",
        "busy: nothing is sold",
        "**broken** (P1, P7)",
        "0",
        "**some**: 3 units left",
        "no faults injected",
    ]
    assert report.verdict(row("combining"))[1:] == [
        "yes",
        "yes",
        "busy: nothing is sold",
        "proved",
        "0",
        "0",
        "redis-killed 0.4 s",
    ]


def test_the_chart_is_a_complete_document():
    drawn = report.chart([row("combining"), row("naive", oversold=7)], "here")
    assert ElementTree.fromstring(drawn).tag.endswith("svg")
    assert 'class="ours"' in drawn
    assert 'class="bad"' in drawn
