"""The measurement of the recorder and the checker."""

from __future__ import annotations

import pytest

from loadtest.bench import main


def test_bench_records_a_run_that_is_judged(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--events", "2000"]) == 0
    said = capsys.readouterr().out
    assert said.startswith("2,000 events: recorded ")
    assert said.endswith("verdict pass\n")


def test_bench_refuses_a_run_in_which_nobody_is_refused(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit):
        main(["--events", "2"])
    assert "at least 1,000" in capsys.readouterr().err
