"""The Correctness tab: what is known now, as rows of one of Locust's own tables."""

from __future__ import annotations

from typing import Any

from loadtest.tally import Tally
from loadtest.ui.referee import IDLE, JUDGED, JUDGING_NOW, RUNNING, SETTLING, Case

KEY = "correctness"
TAB = {"title": "Correctness", "key": KEY}
TABLE = {
    "key": KEY,
    "structure": [
        {"key": "what", "title": ""},
        {"key": "value", "title": "Now"},
        {"key": "meaning", "title": "Which means"},
    ],
}

PHASES = {
    IDLE: "nobody has bought yet",
    RUNNING: "after the run",
    SETTLING: "the follow-up is being waited for",
    JUDGING_NOW: "being judged",
}


def mode(case: Case) -> str:
    """How the shop is selling."""
    if case.figures.get("degraded"):
        return f"{case.plan.strategy}, without Redis"
    return case.plan.strategy


def verdict(case: Case) -> str:
    """PASS, FAIL or UNKNOWN, or when there will be one. Never a boolean: those show as nothing."""
    return case.outcome.upper() if case.phase == JUDGED else PHASES[case.phase]


def rows(case: Case | None, tally: Tally) -> list[dict[str, str]]:
    """The rows, as text."""
    # Locust sorts a table by what is called "name", which therefore is a number nobody sees.
    found = _rows(case, tally)
    return [{"name": f"{number:02}", **row} for number, row in enumerate(found)]


def _rows(case: Case | None, tally: Tally) -> list[dict[str, str]]:
    if case is None:
        return [_row("Verdict", "–", "start a run")]
    figures = case.figures
    oversold = figures.get("oversold", 0)
    return [
        _row("Verdict", verdict(case), case.reason or "see the bar below for the report"),
        _row("Sale", case.plan.sale, f"{case.plan.mix} buyers, {case.plan.loop}"),
        _row("Mode", mode(case), f"{figures.get('processes', 0)} web processes sell"),
        _row("Oversold", oversold, "units that do not exist" if oversold else "nothing: PASS"),
        _row("Sold", figures.get("confirmed", 0), "units paid for"),
        _row("Held", figures.get("held", 0), "units of orders that are not paid yet"),
        _row("Available", figures.get("available", 0), f"units left of {figures.get('total', 0)}"),
        _row("ok", tally.ok, "purchases that were promised"),
        _row("fail", tally.fail, "purchases that were refused"),
        _row("info", tally.info, "purchases without a clear answer"),
        *_open_loop(case, tally),
        *_faults(case),
        _row("Follow-ups owed", figures.get("owed", 0), "orders whose confirmation is not sent"),
        *_combining(case),
    ]


def _open_loop(case: Case, tally: Tally) -> list[dict[str, str]]:
    if not case.plan.arrivals:
        return []
    return [
        _row("Late arrivals", tally.late, "buyers who found all users busy: take more users"),
        _row("Not started", tally.unstarted, "buyers who were due before the end"),
    ]


def _faults(case: Case) -> list[dict[str, str]]:
    if case.trouble is None:
        return []
    return [_row("Fault", case.plan.fault, "one every 5 to 15 s; stop the run for the verdict")]


def _combining(case: Case) -> list[dict[str, str]]:
    if not case.plan.fenced:
        return []
    waits, batches = case.counted("lock_wait_count"), case.counted("batches")
    wait = 1000 * case.counted("lock_wait_seconds") / waits if waits else 0.0
    size = case.counted("batched") / batches if batches else 0.0
    return [
        _row("Lock waits", f"{waits:,.0f}", f"{wait:.1f} ms each, on average"),
        _row("Batches", f"{batches:,.0f}", f"{size:.1f} purchases each, on average"),
        _row(
            "Without the lock",
            case.counted("without_lock"),
            "batches sold while Redis was away or late: the guard decides",
        ),
        _row("Stale tokens", case.counted("stale_token"), "writes of overtaken holders, refused"),
        _row("Unclear commits", case.counted("commit_unknown"), "looked up again by their keys"),
    ]


def _row(name: str, value: Any, meaning: str) -> dict[str, str]:
    shown = value if isinstance(value, str) else f"{value:,.0f}"
    return {"what": name, "value": shown, "meaning": meaning}
