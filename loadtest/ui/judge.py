"""Judges the run in a folder, in a process of its own: `python -m loadtest.ui.judge FOLDER`.

Of its own, because judging a large run takes seconds of pure computing, in which Locust's page
would stand still. Reads `run.json`, writes `verdict.json` and `report.html`.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from loadtest.checker import (
    UNKNOWN,
    FaultLogError,
    HistoryError,
    SnapshotError,
    Verdict,
    judge,
)
from loadtest.report import Evidence, Story, gather, write
from loadtest.ui.runs import RunFolder


def main(path: str) -> int:
    """Judge one run; says *unknown* and why, where it cannot be judged."""
    folder = RunFolder(Path(path))
    run: dict[str, Any] = json.loads((folder.path / "run.json").read_text())
    faults = folder.path / "faults.jsonl"
    found = faults if faults.exists() else None
    verdict: Verdict | None = None
    evidence: Evidence | None = None
    reason = run["reason"]
    try:
        evidence = gather(
            run["histories"],
            during=folder.during(),
            final=folder.final if folder.final.exists() else None,
            faults=found,
        )
        if not reason:
            verdict = judge(
                run["histories"],
                folder.final,
                during=folder.during(),
                ledger=folder.ledger if folder.ledger.exists() else None,
                faults=found,
                properties=run["properties"],
            )
    except (HistoryError, SnapshotError, FaultLogError, OSError) as error:
        reason = str(error)
    story = Story(run["title"], run["repeat"], run["facts"], reason)
    write(folder.report, story, verdict, evidence)
    document = verdict.to_json() if verdict else {"verdict": UNKNOWN, "properties": []}
    (folder.path / "verdict.json").write_text(
        json.dumps({**document, "reason": reason, "title": run["title"]}, indent=2) + "\n"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
