"""Judge the run in a folder: `python -m loadtest.ui.judge FOLDER`.

A separate process, because judging a large run takes seconds of computing, during which Locust's
page would not respond. It reads `run.json` and writes `verdict.json` and `report.html`.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from loadtest.checker import UNKNOWN
from loadtest.report import Story
from loadtest.steps import Judged, judge_run, write_report
from loadtest.ui.runs import RunFolder


def main(path: str) -> int:
    """Judge one run; the verdict is *unknown*, with a reason, if it cannot be judged."""
    folder = RunFolder(Path(path))
    run: dict[str, Any] = json.loads((folder.path / "run.json").read_text())
    judged = Judged(None, run["reason"])
    if not judged.reason:
        judged = judge_run(folder, run["histories"], run["not_judged"])
    verdict, reason = judged
    story = Story(run["title"], run["repeat"], run["facts"], reason, run["buyers"])
    write_report(folder.report, folder, run["histories"], story, verdict)
    document = verdict.to_json() if verdict else {"verdict": UNKNOWN, "properties": []}
    (folder.path / "verdict.json").write_text(
        json.dumps({**document, "reason": reason, "title": run["title"]}, indent=2) + "\n"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
