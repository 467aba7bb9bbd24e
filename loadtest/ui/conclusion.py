"""The verdict of a run without a page, as lines for the terminal."""

from __future__ import annotations

from collections.abc import Iterator

import gevent

from loadtest.report.headline import headline, why_not
from loadtest.ui.run import JUDGED, JUDGING_NOW, PageRun
from loadtest.ui.rush_run import RushRun

# Seconds between two looks at a run that is not judged yet.
LOOK = 0.2
# Violations shown of a property; the report has all.
EXAMPLES = 3
WAITING = {JUDGING_NOW: "Comparing every answer with the database."}


def conclusion(run: PageRun | RushRun) -> Iterator[str]:
    """Wait until a run is judged; say what it waits for, then every property and the verdict."""
    said = ""
    while run.phase != JUDGED:
        waiting = WAITING.get(run.phase, "Waiting for mails, payments and expiries.")
        if waiting != said:
            said = waiting
            yield said
        gevent.sleep(LOOK)
    verdict = run.verdict or {}
    for each in verdict.get("properties", []):
        yield f"{each['id']:>4}  {each['verdict'].upper():<8}{each['name']}: {each['detail']}"
        yield from (f"{'':14}{example}" for example in each["evidence"][:EXAMPLES])
    yield from why_not(verdict.get("not_judged", {}))
    reason = f": {run.reason}" if run.reason else ""
    counts = verdict.get("counts", {})
    parts = headline(run.outcome, 0, counts, speed=None, faults=0)
    yield verdict.get("headline", " · ".join(parts)) + reason
