"""P12 and P13: the shop sells again after each fault, and the run has shown something.

A busy machine must not look like a shop that did not recover. So a shop that was slow before the
first fault is given more time, and a bad answer that was slow in coming weighs less.
"""

from __future__ import annotations

from collections.abc import Iterator

from loadtest.checker.evidence import Evidence
from loadtest.checker.properties.property import Need, Property
from loadtest.checker.verdict import Aftermath, Finding, Problem, Rate
from loadtest.history import CONNECTION_REFUSED, FAIL, NEVER, OK
from loadtest.shop import Level

# Calls that need the database; a page from a cache would prove nothing.
WRITES = ("order", "payment", "cancel", "refund")
# What a shop in the best of health says to some of them.
RIGHTLY_REFUSED = (
    "sold_out",
    "limit_reached",
    "price_changed",
    "not_started",
    "paused",
    "ended",
    "not_found",
)
# Refusals that are an overload or an outage, and not an answer.
NOT_SERVED = ("busy", CONNECTION_REFUSED)
# The op of page loads. The operator's restocks are no calls of a client.
PAGE, RESTOCK = "page", "restock"
KINDS = ("API", "pages")

FIRST_OK = 5_000_000_000
"""Nanoseconds from a fault's end to the first ok, on a quick machine."""

SETTLED = 3_000_000_000
"""Nanoseconds from that ok on after which bad answers count."""

HUNG = 8_000_000_000
"""Nanoseconds after which an open call counts as bad, whatever interrupts it then. A client waits
for longer, and a busy machine answers sooner. What the next fault or the end of the load interrupts
earlier tells nothing of the fault before."""

SLOW = 1_000_000_000
"""Nanoseconds after which a bad answer may be the fault of a machine without free CPU. What is
refused sooner was refused by the shop."""

SLACK = 2
"""How many times the longest wait before the first fault is added to what the first ok may take."""

ENOUGH = 20
"""Answers of a kind, after all faults together, without which nothing is known about the kind."""


class Recovery(Property):
    """After every fault the first ok comes in time, and the later answers are good."""

    id, name, level = "P12", "recovery", Level.STOCK
    needs = Need.FAULTS
    asks = "After each fault the shop soon sold again, and its API and pages answered correctly."
    fails = "pools that keep dead connections, breakers that stay open"
    planted = "never served again"

    def _judge(self, evidence: Evidence) -> Finding:
        faults = list(evidence.rows('SELECT name, start, "end" FROM fault ORDER BY start'))
        if not faults:
            return self.unknown("no fault was injected")
        problems, waits, untested, cut_short = [], [], [], []
        allowed = FIRST_OK + _slack(evidence)
        load_end = _load_end(evidence)
        for name, _, end in faults:
            wait = _wait(evidence, end)
            if wait == NEVER and load_end < end + allowed:
                cut_short.append(name)
            elif wait is None:
                untested.append(name)
            elif wait > allowed:
                problems.append(f"after {name} the first ok took {_seconds(wait)}")
            else:
                waits.append(wait)
        after = aftermaths(evidence)
        total = _total(after)
        bad = list(_too_many_bad(after, total))
        before = _rates(evidence, 0, faults[0][1])
        spoiled = any(rate.too_many_bad or rate.too_many_slow for rate in before.values())
        if bad and spoiled and not problems:
            # Faults did not do this: the load was too much for the shop, or for the machine.
            figures = ", ".join(
                f"{rate.bad} of {rate.answers} {kind}" for kind, rate in before.items()
            )
            return self.unknown(f"answers were bad before the first fault already: {figures}")
        problems = bad + problems
        if cut_short and not waits and not problems:
            return self.unknown(f"the load ended just after {', '.join(cut_short)}")
        if untested and not problems:
            return self.unknown(f"nobody could have been served after {', '.join(untested)}")
        found = ", ".join(f"{rate} of {rate.answers} {kind}" for kind, rate in total.items())
        found = f"good answers once settled: {found}"
        if min(rate.answers for rate in total.values()) < ENOUGH and not problems:
            return self.unknown(f"too few {found}")
        longest = _seconds(max(waits, default=0))
        good = f"{len(waits)} faults, the first ok after {longest}; {found}"
        return self.judged(evidence, (Problem("{text}", {"text": text}) for text in problems), good)


def aftermaths(evidence: Evidence) -> list[Aftermath]:
    """Count the answers after each fault: from when the shop is settled to the next fault.

    It is settled `SETTLED` after the first ok. After the last fault, to the end of the load.
    """
    windows = evidence.rows(
        """
        SELECT name, start, "end", lead(start, 1, ?) OVER (ORDER BY start) FROM fault
        ORDER BY start
        """,
        1 + _load_end(evidence),
    )
    found = []
    for name, start, end, until in windows:
        wait = _wait(evidence, end)
        if wait == NEVER:
            wait = None
        since = end + SETTLED + (wait or 0)
        recovery = None if wait is None else round(wait / 1e9, 2)
        rates, during = _rates(evidence, since, until), _rates(evidence, start, since)
        found.append(Aftermath(name, start, recovery, rates, during))
    return found


def _load_end(evidence: Evidence) -> int:
    return int(
        evidence.value(
            """
            SELECT max(max(start, CASE "end" WHEN ? THEN 0 ELSE "end" END)) FROM call
            WHERE NOT asked_again
            """,
            NEVER,
        )
        or 0
    )


def _slack(evidence: Evidence) -> int:
    """Return how much longer everything may take here, by the waits before the first fault."""
    longest = evidence.value(
        """
        SELECT max("end" - start) FROM call WHERE outcome = ? AND NOT asked_again
        AND "end" < (SELECT min(start) FROM fault)
        """,
        OK,
    )
    return min(SLACK * (longest or 0), FIRST_OK)


def _rates(evidence: Evidence, since: int, until: int) -> dict[str, Rate]:
    """Count the answers to calls that began in a window, by kind.

    A call that is still open at the window's end is left out, since the next fault may have hit
    it, unless it had been open for `HUNG`: then its answer counts, whenever that comes.
    """
    rows = evidence.rows(
        f"""
        SELECT op = '{PAGE}', count(*), sum(bad), sum(bad AND "end" - start > {SLOW})
        FROM (
            SELECT op, start, "end", NOT (
                outcome = '{OK}'
                OR (outcome = '{FAIL}' AND op <> '{PAGE}' AND code NOT IN {NOT_SERVED})
                OR (status = 404 AND order_id IS NOT NULL AND NOT EXISTS (
                    SELECT 1 FROM purchase
                    WHERE purchase.order_id = call.order_id AND purchase.buyer = call.buyer
                ))
            ) AS bad
            FROM call WHERE start >= ?1 AND start < ?2 AND NOT asked_again
        )
        WHERE op <> '{RESTOCK}' AND ("end" < ?2 OR start < ?2 - {HUNG})
        GROUP BY 1
        """,
        since,
        until,
    )
    found = {KINDS[page]: Rate(*figures) for page, *figures in rows}
    return {kind: found.get(kind, Rate(0, 0)) for kind in KINDS}


def _total(after: list[Aftermath]) -> dict[str, Rate]:
    return {
        kind: Rate(
            sum(aftermath.rates[kind].answers for aftermath in after),
            sum(aftermath.rates[kind].bad for aftermath in after),
            sum(aftermath.rates[kind].slow for aftermath in after),
        )
        for kind in KINDS
    }


def _too_many_bad(after: list[Aftermath], total: dict[str, Rate]) -> Iterator[str]:
    found = [(aftermath.fault, aftermath.rates) for aftermath in after]
    if len(after) > 1:
        found.append(("all faults", total))
    for fault, rates in found:
        for kind, rate in rates.items():
            if rate.too_many_bad:
                yield (
                    f"settled after {fault}, {rate.bad - rate.slow} of {rate.answers} answers "
                    f"({kind}) were bad at once"
                )
    for kind, rate in total.items():
        if rate.too_many_slow:
            yield f"once settled, {rate.slow} of {rate.answers} answers ({kind}) were bad and slow"


def _wait(evidence: Evidence, end: int) -> int | None:
    """From the end of a fault to the first ok; None if nothing was asked for that could be had."""
    asked = evidence.value(
        f"""SELECT min(start) FROM call WHERE op IN {WRITES} AND start >= ?
        AND NOT asked_again AND code NOT IN {RIGHTLY_REFUSED}""",
        end,
    )
    served = evidence.value(
        f"""SELECT min("end") FROM call WHERE op IN {WRITES} AND outcome = 'ok' AND "end" > ?
        AND NOT asked_again""",
        end,
    )
    if served is None:
        return None if asked is None else NEVER
    return max(0, int(served) - max(end, asked or 0))


def _seconds(ns: int) -> str:
    return "forever" if ns == NEVER else f"{ns / 1e9:.2f} s"


COUNTED = {
    "ok": "purchases accepted",
    "sold_out": "answers “sold out”",
    "duplicate": "purchases accepted again on a retry",
    "info": "answers to purchases unknown",
    "contested": "buyers refused or last units sold",
    "captured": "payments captured",
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

    def judge_answers(self, evidence: Evidence) -> Finding:
        """Judge as ever: all of it is what buyers were answered."""
        return self.judge(evidence)

    def _judge(self, evidence: Evidence) -> Finding:
        seen = {
            "ok": evidence.value("SELECT count(*) FROM purchase WHERE outcome = 'ok'"),
            "sold_out": evidence.value("SELECT count(*) FROM call WHERE code = 'sold_out'"),
            "duplicate": evidence.value("SELECT count(*) FROM purchase WHERE oks > 1"),
            # An answer, since some buyers ask again until no purchase is left unknown.
            "info": evidence.value(
                "SELECT count(*) FROM call WHERE op = 'order' AND outcome = 'info'"
            ),
        }
        if "contested" in evidence.enough:
            seen["contested"] = evidence.value(
                """
                SELECT (SELECT count(*) FROM purchase WHERE outcome = 'fail')
                    + (SELECT count(*) FROM item WHERE snapshot = 0 AND held + confirmed >= total)
                """
            )
        if "captured" in evidence.enough:
            seen["captured"] = evidence.value(
                "SELECT count(*) FROM payment WHERE operation = 'capture'"
            )
        figures = ", ".join(f"{number} {COUNTED[what]}" for what, number in seen.items())
        missing = [COUNTED[what] for what, wanted in evidence.enough.items() if seen[what] < wanted]
        if missing:
            return self.unknown(f"too few {', '.join(missing)} to mean anything: {figures}")
        errors = evidence.value("SELECT count(*) FROM call WHERE status = 500")
        if errors and not (evidence.has_faults or evidence.allows_errors):
            return self.unknown(f"{errors} server errors although nothing was broken: {figures}")
        return self.passed(figures)
