"""P13: whether the run put the other properties to the test at all."""

from __future__ import annotations

from loadtest.checker.evidence import Evidence
from loadtest.checker.properties.finding import unknown
from loadtest.checker.verdict import PASS, Finding

COUNTED = {
    "ok": "purchases accepted",
    "sold_out": "answers “sold out”",
    "duplicate": "purchases accepted again on a retry",
    "info": "purchases unknown",
}
"""What P13 counts; a purchase is a key with all its retries, an answer one request."""


def not_vacuous(evidence: Evidence) -> Finding:
    """P13: enough answers were ok, sold_out and repeated, and unknown if the faults make some so.

    Without faults the shop must not fail on its own: what it would have answered is not known, and
    may be just what a defect hides behind.
    """
    seen = {
        "ok": evidence.value("SELECT count(*) FROM purchase WHERE outcome = 'ok'"),
        "sold_out": evidence.value("SELECT count(*) FROM call WHERE code = 'sold_out'"),
        "duplicate": evidence.value("SELECT count(*) FROM purchase WHERE oks > 1"),
        "info": evidence.value("SELECT count(*) FROM purchase WHERE outcome = 'info'"),
    }
    figures = ", ".join(f"{number} {COUNTED[what]}" for what, number in seen.items())
    missing = [COUNTED[what] for what, wanted in evidence.enough.items() if seen[what] < wanted]
    if missing:
        return unknown("P13", f"too few {', '.join(missing)} to mean anything: {figures}")
    errors = evidence.value("SELECT count(*) FROM call WHERE status = 500")
    if errors and not evidence.has_faults:
        return unknown("P13", f"{errors} server errors although nothing was broken: {figures}")
    return Finding("P13", PASS, figures)
