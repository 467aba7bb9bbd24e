"""P12: how soon after a fault the shop sells again, and how well it answers from then on."""

from __future__ import annotations

from collections.abc import Iterator

from loadtest.checker.evidence import Evidence
from loadtest.checker.properties.finding import judged, unknown
from loadtest.checker.verdict import Aftermath, Finding, Rate
from loadtest.history import CONNECTION_REFUSED, FAIL, NEVER, OK

# Calls that need the database; a page from a cache would prove nothing.
WRITES = ("order", "payment", "cancel", "refund")
# What a shop in the best of health says to some of them.
RIGHTLY_REFUSED = ("sold_out", "limit_reached", "not_started", "paused", "ended", "not_found")
# Refusals that are an overload or an outage, and not an answer.
NOT_SERVED = ("busy", CONNECTION_REFUSED)
# The op of page loads. The operator's restocks are no calls of a client.
PAGE, RESTOCK = "page", "restock"
KINDS = ("API", "pages")

HUNG = 8_000_000_000
"""Nanoseconds after which an open call counts as bad, whatever interrupts it then. A client waits
for longer, and a busy machine answers sooner. What the next fault or the end of the load interrupts
earlier tells nothing of the fault before."""

ENOUGH = 20
"""Answers of a kind, after all faults together, without which nothing is known about the kind."""


def recovery(evidence: Evidence) -> Finding:
    """P12: after every fault the first ok comes in time, and 99 % of the later answers are good."""
    faults = list(evidence.rows('SELECT name, start, "end" FROM fault ORDER BY start'))
    if not faults:
        return unknown("P12", "no fault was injected")
    problems, waits, untested, cut_short = [], [], [], []
    load_end = evidence.value("SELECT max(start) FROM call WHERE NOT asked_again") or 0
    for name, _, end in faults:
        wait = _wait(evidence, end)
        if wait == NEVER and load_end < end + evidence.recovery_ns:
            cut_short.append(name)
        elif wait is None:
            untested.append(name)
        elif wait > evidence.recovery_ns:
            problems.append(f"after {name} the first ok took {_seconds(wait)}")
        else:
            waits.append(wait)
    after = aftermaths(evidence)
    total = _total(after)
    bad = list(_too_many_bad(after, total, _seconds(evidence.settled_ns)))
    before = _rates(evidence, 0, faults[0][1])
    if bad and not problems and any(rate.too_many_bad for rate in before.values()):
        # Faults did not do this: the load was too much for the shop, or for the machine.
        figures = ", ".join(f"{rate.bad} of {rate.answers} {kind}" for kind, rate in before.items())
        return unknown("P12", f"answers were bad before the first fault already: {figures}")
    problems = bad + problems
    if cut_short and not waits and not problems:
        return unknown("P12", f"the load ended just after {', '.join(cut_short)}")
    if untested and not problems:
        return unknown("P12", f"nobody could have been served after {', '.join(untested)}")
    found = ", ".join(f"{rate} of {rate.answers} {kind}" for kind, rate in total.items())
    found = f"good answers from {_seconds(evidence.settled_ns)} after a fault on: {found}"
    if min(rate.answers for rate in total.values()) < ENOUGH and not problems:
        return unknown("P12", f"too few {found}")
    longest = _seconds(max(waits, default=0))
    return judged("P12", problems, f"{len(waits)} faults, the first ok after {longest}; {found}")


def aftermaths(evidence: Evidence) -> list[Aftermath]:
    """Count the answers after each fault: from `settled_ns` after its end to the next fault.

    After the last one, to the end of the load.
    """
    windows = evidence.rows(
        """
        SELECT name, start, "end" + ?, lead(start, 1, (
            SELECT 1 + max(max(start, CASE "end" WHEN ? THEN 0 ELSE "end" END)) FROM call
            WHERE NOT asked_again
        )) OVER (ORDER BY start) FROM fault ORDER BY start
        """,
        evidence.settled_ns,
        NEVER,
    )
    return [
        Aftermath(
            name,
            start,
            rates=_rates(evidence, since, until or 0),
            during=_rates(evidence, start, since),
        )
        for name, start, since, until in windows
    ]


def _rates(evidence: Evidence, since: int, until: int) -> dict[str, Rate]:
    """Count the answers to calls that began in a window, by kind.

    A call that is still open at the window's end is left out, since the next fault may have hit
    it, unless it had been open for `HUNG`: then its answer counts, whenever that comes.
    """
    rows = evidence.rows(
        f"""
        SELECT op = '{PAGE}', count(*), sum(NOT (
            outcome = '{OK}' OR not_theirs
            OR (outcome = '{FAIL}' AND op <> '{PAGE}' AND code NOT IN {NOT_SERVED})))
        FROM (
            SELECT *, "end" < ?2 AS ended,
                status = 404 AND order_id IS NOT NULL AND NOT EXISTS (
                    SELECT 1 FROM purchase
                    WHERE purchase.order_id = call.order_id AND purchase.buyer = call.buyer
                ) AS not_theirs
            FROM call WHERE start >= ?1 AND start < ?2 AND NOT asked_again
        )
        WHERE op <> '{RESTOCK}' AND (ended OR start < ?2 - ?3)
        GROUP BY 1
        """,
        since,
        until,
        HUNG,
    )
    found = {KINDS[page]: Rate(answers, bad) for page, answers, bad in rows}
    return {kind: found.get(kind, Rate(0, 0)) for kind in KINDS}


def _total(after: list[Aftermath]) -> dict[str, Rate]:
    return {
        kind: Rate(
            sum(each.rates[kind].answers for each in after),
            sum(each.rates[kind].bad for each in after),
        )
        for kind in KINDS
    }


def _too_many_bad(after: list[Aftermath], total: dict[str, Rate], since: str) -> Iterator[str]:
    found = [(each.fault, each.rates) for each in after]
    if len(after) > 1:
        found.append(("all faults", total))
    for fault, rates in found:
        for kind, rate in rates.items():
            if rate.too_many_bad:
                yield (
                    f"from {since} after {fault} on, {rate.bad} of {rate.answers} answers "
                    f"({kind}) were bad"
                )


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
    return "for ever" if ns == NEVER else f"{ns / 1e9:.2f} s"
