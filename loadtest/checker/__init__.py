"""Judges a run from what clients recorded and what the database shows afterwards.

    verdict = judge(RunFiles(folder), properties=["P1", "P2", …])
    verdict.verdict    # "pass", "fail" or "unknown"

Reads files only, so that it can judge any shop with the same API. `judging` writes a verdict into
the folder of its run, `report` shows it, and `python -m loadtest.checker` judges such a folder
again.
"""

from loadtest.checker.judge import ENOUGH, Broken, buyers_by_end, judge, judge_so_far
from loadtest.checker.properties import BY_ANSWERS, PROPERTIES, Need, not_judged
from loadtest.checker.snapshot import SnapshotError
from loadtest.checker.verdict import EXIT_CODES, FAIL, PASS, UNKNOWN, Finding, Rate, Verdict
from loadtest.fault_log import FaultLogError
from loadtest.history import HistoryError

__all__ = [
    "BY_ANSWERS",
    "ENOUGH",
    "EXIT_CODES",
    "FAIL",
    "PASS",
    "PROPERTIES",
    "UNKNOWN",
    "Broken",
    "FaultLogError",
    "Finding",
    "HistoryError",
    "Need",
    "Rate",
    "SnapshotError",
    "Verdict",
    "buyers_by_end",
    "judge",
    "judge_so_far",
    "not_judged",
]
