"""Slow motion: the document that the player reads, its marks, and the files it is made of."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from loadtest.checker import judge, snapshot
from loadtest.files import RunFiles
from loadtest.history import operations
from loadtest.replay import ServedError, compose, marks_of, player_css, player_js, read_served
from loadtest.replay.document import Mark, units_for_sale
from loadtest.tests.busy_run import sold_out_run
from loadtest.tests.planted_orders import STOCK_PLANTS
from loadtest.tests.simulated_world import World

JUDGED = [f"P{number}" for number in range(1, 12)]
SERVED = {"key": "k", "process": 7, "queued": 2000, "begun": 3000, "committed": 4000, "batch": 1}


def marked(world: World, folder: Path, *properties: str) -> tuple[RunFiles, list[Mark]]:
    files = world.write(folder / "run")
    return files, marks_of(judge(files, properties=properties or JUDGED))


def history(folder: Path, *calls: tuple[int, int, str, int]) -> RunFiles:
    """A run of purchases: when they were sent and answered in ns, their key, and the answer."""
    world = World(tick=1)
    for sent, answered, key, status in calls:
        order, code = (f"o{key}", "") if status == 201 else (None, "sold_out" if status else "")
        world.call(sent, answered, "order", status, code, buyer="b", key=key, order=order)
        if not status:
            world.lines.pop()
    return world.write(folder)


def served(path: Path, *lines: dict[str, Any]) -> Path:
    path.write_text("".join(json.dumps({**SERVED, **line}) + "\n" for line in lines))
    return path


def test_a_document_has_every_call_with_its_times_and_words(tmp_path: Path) -> None:
    files = history(tmp_path, (1000, 5000, "k", 201), (2500, 9000, "x", 409), (3000, 0, "y", 0))
    document = compose(files, title="t", units=1)
    words = document["words"]
    assert document["calls"] == {
        "sent": [0, 1, 2],
        "answered": [4, 8, None],
        "outcome": [0, 1, 2],
        "op": [words.index("order")] * 3,
        "buyer": [words.index("b")] * 3,
        "code": [None, words.index("sold_out"), None],
        "order": [words.index("ok"), None, None],
        "quantity": [1, 1, 1],
        "status": [201, 409, 0],
    }
    assert (document["all"], document["units"], document["served"]) == (3, 1, None)
    assert (document["marks"], document["faults"]) == ([], [])


def test_what_the_shop_recorded_belongs_to_the_attempt_of_the_same_time(tmp_path: Path) -> None:
    calls = (1000, 5000, "k", 409), (6000, 9000, "k", 201), (6000, 9500, "x", 409)
    files = history(tmp_path, *calls)
    again = {"queued": 7000, "begun": 7500, "committed": 8000, "batch": 2}
    # Answered from the queue: no transaction began for it.
    in_queue = {"key": "x", "queued": 7000, "begun": None, "committed": 9000, "batch": None}
    served(tmp_path / "7.served", {}, again, in_queue)
    assert compose(files, title="t")["served"] == {
        "process": [7, 7, 7],
        "queued": [1, 6, 6],
        "begun": [2, 6, None],
        "committed": [3, 7, 8],
        "batch": [1, 2, None],
    }
    alone = {"begun": None, "batch": None}
    served(tmp_path / "7.served", alone)
    assert compose(files, title="t")["served"]["begun"] == [1, None, None]


def test_a_killed_process_leaves_a_torn_line_and_any_other_is_an_error(tmp_path: Path) -> None:
    path = served(tmp_path / "7.served", {})
    with path.open("a") as file:
        file.write('{"key":"torn')
    assert list(read_served([path])) == ["k"]
    for broken in ("nonsense", '{"key":"k"}', json.dumps({**SERVED, "queued": "soon"})):
        path.write_text(broken + "\n")
        with pytest.raises(ServedError, match=r"7\.served:1"):
            read_served([path])


@pytest.mark.parametrize(
    ("plant", "op", "key", "status"),
    [
        ("P3: order lost", "order", "k1", 201),
        ("P4: order of a refused key", "order", "planted-120", 409),
        ("P5: two answers for a key", "order", "k1", 200),
        ("P5: repeated key refused", "order", "k1", 409),
        ("P7: refused while there was stock", "order", "planted-120", 409),
        ("P8: promised order not readable", "read", "", 404),
        ("P11: charged twice", "payment", "", 200),
    ],
)
def test_a_violation_is_marked_at_the_call_that_its_evidence_is_about(
    plant: str, op: str, key: str, status: int, tmp_path: Path
) -> None:
    world = sold_out_run(7)
    STOCK_PLANTS[plant](world)
    files, marks = marked(world, tmp_path)
    mark = next(each for each in marks if each.property == plant.partition(":")[0])
    call = next(each for each in operations(*files.histories()) if each.call == mark.call)
    assert (call.op, call.key, call.status, call.end) == (op, key, status, mark.at)
    document = compose(files, title="t", marks=marks)
    shown = next(each for each in document["marks"] if each["text"] == mark.text)
    assert document["calls"]["answered"][shown["call"]] == shown["at"]


def test_an_oversell_is_marked_at_the_answer_that_promised_too_much(tmp_path: Path) -> None:
    world = sold_out_run(7)
    late = world.call(world.end + 1, world.end + 2, "order", 201, order="o99")
    world.change(world.item, held=world.item.held + 1)
    files, [mark] = marked(world, tmp_path, "P1")
    call = next(each for each in operations(*files.histories()) if each.call == mark.call)
    assert call.key == late


def test_books_are_marked_at_the_first_snapshot_that_shows_them_wrong(tmp_path: Path) -> None:
    world = sold_out_run(7)
    STOCK_PLANTS["P1: below zero during the run"](world)
    files, [mark] = marked(world, tmp_path, "P1")
    number = int(mark.text.partition("snapshot ")[2].partition(")")[0])
    assert (mark.at, mark.call) == (snapshot.read(files.during()[number - 1])[0].taken_at, "")


def test_a_run_without_a_violation_has_no_mark(tmp_path: Path) -> None:
    files, marks = marked(sold_out_run(7), tmp_path)
    assert marks == []
    assert units_for_sale(files) == 4


def test_a_long_run_is_cut_to_the_calls_around_its_first_violation(tmp_path: Path) -> None:
    calls = [(1000 * n, 1000 * n + 500, f"k{n}", 201) for n in range(100)]
    document = compose(history(tmp_path, *calls), title="t", units=50, most=8)
    assert (len(document["calls"]["sent"]), document["all"], document["units"]) == (8, 100, 50)
    world = sold_out_run(7)
    STOCK_PLANTS["P3: order lost"](world)
    files, marks = marked(world, tmp_path, "P3")
    document = compose(files, title="t", marks=marks, units=4, most=8)
    assert len(document["calls"]["sent"]) == 8
    [mark] = document["marks"]
    place = sorted(document["calls"]["answered"]).index(mark["at"])
    assert place == 5  # three quarters before it, itself included
    assert document["units"] is None


def test_the_player_is_small_and_loads_nothing() -> None:
    player = player_js() + player_css()
    assert len(player.encode()) < 50_000
    for forbidden in ("http", "@import", "url(", "innerHTML", "eval"):
        assert forbidden not in player
