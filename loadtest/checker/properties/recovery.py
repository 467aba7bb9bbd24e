"""P12: how soon the shop sells again after a fault."""

from __future__ import annotations

from loadtest.checker.evidence import Evidence
from loadtest.checker.properties.finding import judged, unknown
from loadtest.checker.verdict import Finding
from loadtest.history import NEVER

# Calls that need the database; a page from a cache would prove nothing.
WRITES = ("order", "payment", "cancel", "refund")
# What a shop in the best of health says to some of them.
RIGHTLY_REFUSED = ("sold_out", "limit_reached", "not_started", "ended")


def recovery(evidence: Evidence) -> Finding:
    """P12: after every fault the first ok comes in time, counted from when somebody asked."""
    faults = list(evidence.rows('SELECT name, start, "end" FROM fault ORDER BY start'))
    if not faults:
        return unknown("P12", "no fault was injected")
    problems, waits, untested = [], [], []
    for name, _, end in faults:
        wait = _wait(evidence, end)
        if wait is None:
            untested.append(name)
        elif wait > evidence.recovery_ns:
            problems.append(f"after {name} the first ok took {_seconds(wait)}")
        else:
            waits.append(wait)
    if untested and not problems:
        return unknown("P12", f"nobody could have been served after {', '.join(untested)}")
    longest = _seconds(max(waits, default=0))
    return judged("P12", problems, f"{len(waits)} faults, the first ok after {longest} at most")


def _wait(evidence: Evidence, end: int) -> int | None:
    """From the end of a fault to the first ok; None if nothing was asked for that could be had."""
    asked = evidence.value(
        f"""SELECT min(start) FROM call WHERE op IN {WRITES} AND start >= ?
        AND code NOT IN {RIGHTLY_REFUSED}""",
        end,
    )
    served = evidence.value(
        f"""SELECT min("end") FROM call WHERE op IN {WRITES} AND outcome = 'ok' AND "end" > ?""",
        end,
    )
    if served is None:
        return None if asked is None else NEVER
    return max(0, int(served) - max(end, asked or 0))


def _seconds(ns: int) -> str:
    return "for ever" if ns == NEVER else f"{ns / 1e9:.2f} s"
