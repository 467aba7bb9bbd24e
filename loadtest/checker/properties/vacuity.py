"""P13: whether the run put the other properties to the test at all."""

from __future__ import annotations

from loadtest.checker.evidence import Evidence
from loadtest.checker.properties.property import Property
from loadtest.checker.verdict import Finding
from loadtest.shop import Level

COUNTED = {
    "ok": "purchases accepted",
    "sold_out": "answers “sold out”",
    "duplicate": "purchases accepted again on a retry",
    "info": "purchases unknown",
    "contested": "buyers refused or last units sold",
}
"""What P13 counts; a purchase is a key with all its retries, an answer one request."""


class NotVacuous(Property):
    """Enough answers were ok, sold_out and repeated, and unknown if the faults make some so.

    Without faults the shop must not fail on its own: what it would have answered is not known, and
    may be just what a defect hides behind.
    """

    id, name, level = "P13", "not vacuous", Level.STOCK
    asks = "There were enough sales, refusals and repeated requests for a meaningful verdict."
    fails = "a pass over an empty shop"
    planted = "nobody refused"

    def _judge(self, evidence: Evidence) -> Finding:
        seen = {
            "ok": evidence.value("SELECT count(*) FROM purchase WHERE outcome = 'ok'"),
            "sold_out": evidence.value("SELECT count(*) FROM call WHERE code = 'sold_out'"),
            "duplicate": evidence.value("SELECT count(*) FROM purchase WHERE oks > 1"),
            "info": evidence.value("SELECT count(*) FROM purchase WHERE outcome = 'info'"),
        }
        if "contested" in evidence.enough:
            seen["contested"] = evidence.value(
                """
                SELECT (SELECT count(*) FROM purchase WHERE outcome = 'fail')
                    + (SELECT count(*) FROM item WHERE snapshot = 0 AND held + confirmed >= total)
                """
            )
        figures = ", ".join(f"{number} {COUNTED[what]}" for what, number in seen.items())
        missing = [COUNTED[what] for what, wanted in evidence.enough.items() if seen[what] < wanted]
        if missing:
            return self.unknown(f"too few {', '.join(missing)} to mean anything: {figures}")
        errors = evidence.value("SELECT count(*) FROM call WHERE status = 500")
        if errors and not (evidence.has_faults or evidence.allows_errors):
            return self.unknown(f"{errors} server errors although nothing was broken: {figures}")
        return self.passed(figures)
