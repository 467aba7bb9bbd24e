"""A duel with real buyers, on a shop of its own."""

import json
import os
import subprocess
import sys

import pytest

from lab import environment
from lab.room.duels import Duels
from lab.room.timeline import Timeline

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
    assert sorted(each["side"] for each in told if "sale" in each) == [0, 1]
    naive, combining = told[-1]["results"]
    assert (naive["outcome"], naive["oversold"] > 0) == ("fail", True)
    assert combining == {"outcome": "pass", "orders": 20, "oversold": 0}
    duels = Duels("", tmp_path, Timeline(), lambda _: None, lambda _: None)
    for side in ("first", "second"):
        report = duels.report(f"1/{side}")
        assert report is not None
        assert "<html" in report.read_text(encoding="utf-8")
    for path in ("1/third", "2/first", "1/../1/first", "", "1/first/x"):
        assert duels.report(path) is None
