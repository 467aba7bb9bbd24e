"""A duel with real buyers, on a shop of its own."""

import json
import os
import subprocess
import sys

import pytest

from lab import environment
from lab.room.duel import Duels
from lab.room.room import Timeline

pytestmark = pytest.mark.long


def test_naive_oversells_and_combining_does_not_to_the_same_buyers(tmp_path):
    words = ("--buyers", "80", "--stock", "20", "--seed", "7", "--folder", str(tmp_path))
    done = subprocess.run(
        [sys.executable, "manage.py", "duel", "--lines", *words],
        cwd=environment.PROJECT,
        # Not among the mails of other databases' shops, whose orders have the same numbers.
        env={**os.environ, "SHOP_DATA": str(tmp_path / "data")},
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    told = [json.loads(line) for line in done.stdout.splitlines()]
    assert told[0] == {"run": 1}
    sides = [each["side"] for each in told if "side" in each]
    assert sides == sorted(sides)  # one after the other
    assert set(sides) == {0, 1}
    naive, combining = told[-1]["results"]
    assert (naive["outcome"], naive["oversold"] > 0) == ("fail", True)
    assert (combining["outcome"], combining["orders"], combining["oversold"]) == ("pass", 20, 0)
    duels = Duels("", tmp_path, Timeline(), lambda _: None)
    recorded = json.loads(duels.recording().read_bytes())
    assert (recorded["buyers"], recorded["units"], recorded["seed"]) == (80, 20, 7)
    for side, ended in zip(recorded["sides"], (naive, combining), strict=True):
        replay = side.pop("replay")
        assert side == {"strategy": replay["title"], **ended}
        assert replay["units"] == 20
        assert [mark["property"] for mark in replay["marks"]] == ["P1"] * (ended["oversold"] > 0)
        # Of each order it is known what the web processes did.
        orders, committed = replay["calls"]["order"], replay["served"]["committed"]
        served = {order for order, at in zip(orders, committed, strict=True) if at is not None}
        assert served >= set(orders) - {None}
    for side in ("first", "second"):
        report = duels.report(f"1/{side}")
        assert report is not None
        assert "<html" in report.read_text(encoding="utf-8")
    for path in ("1/third", "2/first", "1/../1/first", "", "1/first/x"):
        assert duels.report(path) is None
