"""Judges a run from what clients recorded and what the database shows afterwards.

    verdict = judge(history_files, "final.jsonl", properties=["P1", "P2", …])
    verdict.verdict    # "pass", "fail" or "unknown"

Reads files only, so that it can judge any shop with the same API.
"""

from loadtest.checker.evidence import FaultLogError
from loadtest.checker.judge import ENOUGH, judge
from loadtest.checker.snapshot import SnapshotError
from loadtest.checker.verdict import FAIL, NAMES, PASS, UNKNOWN, Aftermath, Finding, Rate, Verdict
from loadtest.history import HistoryError

__all__ = [
    "ENOUGH",
    "FAIL",
    "NAMES",
    "PASS",
    "UNKNOWN",
    "Aftermath",
    "FaultLogError",
    "Finding",
    "HistoryError",
    "Rate",
    "SnapshotError",
    "Verdict",
    "judge",
]
