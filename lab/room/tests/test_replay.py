"""The recording that the duel's player reads."""

from __future__ import annotations

from pathlib import Path

from lab import environment
from lab.room.replay import Mark, compose
from loadtest.files import RunFiles
from loadtest.history import operations
from loadtest.tests.simulated_world import World


def history(folder: Path, *calls: tuple[int, int, str, int]) -> RunFiles:
    """A run of purchases: when they were sent and answered in ns, their key, and the answer."""
    world = World(tick=1)
    for sent, answered, key, status in calls:
        order, code = (f"o{key}", "") if status == 201 else (None, "sold_out" if status else "")
        world.call(sent, answered, "order", status, code, buyer="b", key=key, order=order)
        if not status:
            world.lines.pop()
    return world.write(folder)


def test_replay_has_every_call_with_its_times_and_words(tmp_path: Path) -> None:
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
    assert (document["all"], document["units"]) == (3, 1)
    assert (document["marks"], document["faults"]) == ([], [])


def test_replay_of_a_long_run_shows_its_first_violation(tmp_path: Path) -> None:
    calls = [(1000 * n, 1000 * n + 500, f"k{n}", 201) for n in range(100)]
    document = compose(history(tmp_path, *calls), title="t", units=50, most=8)
    assert (len(document["calls"]["sent"]), document["all"], document["units"]) == (8, 100, 50)
    answers = [call.end for call in operations(*history(tmp_path / "more", *calls).histories())]
    mark = Mark("P3", "no lost order", answers[60], "order 60 is lost")
    files = RunFiles(tmp_path / "more")
    document = compose(files, title="t", marks=[mark], units=4, most=8)
    assert len(document["calls"]["sent"]) == 8
    [shown] = document["marks"]
    place = sorted(document["calls"]["answered"]).index(shown["at"])
    assert place == 5  # three quarters before it, itself included
    assert document["units"] is None


def test_player_is_small_and_loads_nothing() -> None:
    folder = environment.PROJECT / "lab" / "static" / "replay"
    player = "".join(path.read_text(encoding="utf-8") for path in folder.iterdir())
    assert len(player.encode()) < 50_000
    for forbidden in ("http", "@import", "url(", "innerHTML", "eval"):
        assert forbidden not in player
