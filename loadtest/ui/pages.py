"""The additions to Locust's page: the tab, the bar at the bottom, and the verdict's page."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from flask import Flask, Response, jsonify, request, send_file
from markupsafe import Markup
from msgspec import to_builtins

from loadtest.calls import Tally
from loadtest.checker import FAIL, Broken, Finding, Verdict
from loadtest.checker.report import Description, document, render, stock_so_far
from loadtest.checker.report.headline import counted
from loadtest.checker.verdict import History
from loadtest.files import RunFiles, RunFolder
from loadtest.mix.plan import MixPlan
from loadtest.options import wrong_numbers
from loadtest.run_plan import RunPlan
from loadtest.ui.referee import Referee
from loadtest.ui.run import JUDGED, JUDGING_NOW, RUNNING, SETTLING, PageRun
from loadtest.ui.rush_run import RushRun

if TYPE_CHECKING:  # Locust patches the process when it is imported
    from locust.web import WebUI

KEY = "correctness"
COLUMNS = ("what", "value", "meaning")
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
    RUNNING: "running",
    SETTLING: "waiting for the follow-up",
    JUDGING_NOW: "being judged",
}


def title(run: PageRun | RushRun) -> str:
    """Return what is sold and how; of a rush, what it does now."""
    if isinstance(run, PageRun):
        plan = run.plan
        if isinstance(plan, MixPlan):
            return f"{plan.adapter} · {plan.mix}"
        return f"Sale {plan.sale} · {strategy(run, plan)}"
    doing = counted(len(run.result.rounds), "round")
    if run.phase == RUNNING:
        doing = run.reason or "the buyers gather"
    return f"{run.plan.adapter} · {doing}"


def strategy(run: PageRun, plan: RunPlan) -> str:
    """Return how our shop is selling now."""
    if run.figures.get("degraded"):
        return f"{plan.strategy}, without Redis"
    return plan.strategy


def outcome(run: PageRun | RushRun) -> str:
    """Return pass, fail or unknown, as soon as it is certain; empty until then."""
    if run.phase == JUDGED:
        return run.outcome
    return FAIL if run.broken else ""


def broken(run: PageRun | RushRun) -> list[Broken]:
    """Return what is broken, unless there turned out to be no verdict."""
    return run.broken if outcome(run) == FAIL else []


def verdict(run: PageRun | RushRun) -> str:
    """Return PASS, FAIL or UNKNOWN, or the phase; not a boolean, which Locust does not show."""
    return outcome(run).upper() or phase(run)


def phase(run: PageRun | RushRun) -> str:
    """Return what a run does now; while it waits for the follow-up, how much is pending."""
    pending = run.figures.get("pending", 0)
    more = f": {pending:,} pending" if run.phase == SETTLING else ""
    return f"{PHASES[run.phase]}{more}"


def age(run: PageRun | RushRun) -> str:
    """Return how old the shop's figures are."""
    return f"{max(0.0, time.monotonic() - run.read_at):.0f} s old"


def rows(run: PageRun | RushRun | None, tally: Tally) -> list[dict[str, str]]:
    """Return the rows as text."""
    # Locust sorts a table by "name", so that is a hidden number.
    found = _rows(run, tally)
    return [{"name": f"{number:02}", **row} for number, row in enumerate(found)]


def _rows(run: PageRun | RushRun | None, tally: Tally) -> list[dict[str, str]]:
    if run is None:
        return [_row("Verdict", "–", "start a run")]
    said = run.reason or "see the bar below for the report"
    return [_row("Verdict", verdict(run), said), *_broken(run), *figures_of(run, tally)]


def figures_of(run: PageRun | RushRun, tally: Tally) -> list[dict[str, str]]:
    """Return the figures of a run, without its verdict."""
    figures = run.figures
    oversold, purchases = figures.get("oversold", 0), figures.get("purchases", 0)
    meaning = "units that do not exist" if oversold else "nothing so far"
    return [
        *(_shop(run) if isinstance(run, RushRun) else _sale(run)),
        _row("Figures", age(run), _source(run)),
        _row("Oversold", oversold, meaning if purchases else "no purchase yet"),
        _row("Sold", figures.get("confirmed", 0), "units paid for"),
        _row("Held", figures.get("held", 0), "units of orders that are not paid yet"),
        _row("Available", figures.get("available", 0), f"units left of {figures.get('total', 0)}"),
        _row("Purchases", purchases, "each counted once, however often it was asked for"),
        _row("Accepted", tally.ok, "answers, repeated ones included"),
        _row("Refused", tally.fail, "answers; sold out, the limit and the like"),
        _row("Unknown", tally.info, "requests without a clear answer"),
        *(_of_users(run, tally) if isinstance(run, PageRun) else []),
    ]


def _source(run: PageRun | RushRun) -> str:
    if isinstance(run, PageRun) and isinstance(run.plan, MixPlan):
        return "below, by what buyers were answered; at the end by the shop's books"
    return "those of the shop's books below, while the run goes on"


def _sale(run: PageRun) -> list[dict[str, str]]:
    plan, processes = run.plan, run.figures.get("processes", 0)
    sale = _row("Sale", plan.sale, f"mix {plan.mix}, {plan.loop}")
    if isinstance(plan, MixPlan):
        return [_row("Shop", plan.adapter, "judged by its own books"), sale]
    return [sale, _row("Strategy", strategy(run, plan), f"{processes} web processes sell")]


def _shop(run: RushRun) -> list[dict[str, str]]:
    plan = run.plan
    size = f"each {counted(plan.buyers, 'buyer')} at one moment, {counted(plan.stock, 'unit')}"
    rounds, wrong = len(run.result.rounds), run.result.broken_rounds
    broken = f"{wrong} broken; " if wrong else ""
    return [
        _row("Shop", plan.adapter, "judged by its own books; the figures are of its worst round"),
        _row("Rounds", rounds, broken + size),
    ]


def _of_users(run: PageRun, tally: Tally) -> Iterator[dict[str, str]]:
    plan = run.plan
    if not plan.lasts:
        meaning = "have played all their buyers"
        if all_finished(run, tally) and run.phase == RUNNING:
            meaning = "The work is done: stop the run to get the verdict."
        yield _row("Users done", f"{tally.finished:,} of {plan.buyers:,}", meaning)
    if plan.arrivals:
        late = "buyers who found all users busy: increase the users"
        yield _row("Late arrivals", tally.late, late)
        yield _row("Not started", tally.unstarted, "buyers who were due but not started")
    if isinstance(plan, MixPlan):
        return
    if plan.faults:
        name = plan.faults[0] if len(plan.faults) == 1 else f"{len(plan.faults)} kinds"
        yield _row("Fault", name, "one every 5 to 15 s. Stop the run to get the verdict.")
    pending = run.figures.get("pending", 0)
    yield _row("Follow-ups pending", pending, "orders whose confirmation is not sent")


def _broken(run: PageRun | RushRun) -> list[dict[str, str]]:
    """What is broken, the first with its history."""
    rows = []
    for number, finding in enumerate(broken(run)):
        rows.append(_row("Broken", f"{finding.id} {finding.name}", finding.reason))
        if not number and finding.before:
            rows.append(_row("", "before", f"{finding.before:,} purchases were accepted"))
        rows += [
            _row(step.at, step.buyer, f"{step.asked} → {step.answered}")
            for step in finding.history
            if not number
        ]
    return rows


def all_finished(run: PageRun | RushRun, tally: Tally) -> bool:
    """Return whether every user has played all their buyers."""
    lasts = isinstance(run, PageRun) and run.plan.lasts
    return not lasts and tally.finished >= run.plan.buyers


def _row(name: str, value: Any, meaning: str) -> dict[str, str]:
    shown = value if isinstance(value, str) else f"{value:,.0f}"
    return {"what": name, "value": shown, "meaning": meaning}


_BAR_SCRIPT = Path(__file__).with_name("bar.js")
_BAR = '<script src="./correctness/bar.js"></script></body>'


def install(web_ui: WebUI, referee: Referee, base: str = "") -> None:
    """Add everything to the page; `base` is the path prefix of Locust's pages."""
    for name, part in (("extended_tabs", TAB), ("extended_tables", TABLE)):
        web_ui.template_args.setdefault(name, []).append(part)
    app = web_ui.app
    assert app is not None
    # Keep the form's options in the order in which they were added.
    app.jinja_env.policies["json.dumps_kwargs"] = {"sort_keys": False}
    app.before_request(_refuse_other_sites)
    app.before_request(lambda: _refuse_words(referee) if request.path == f"{base}/swarm" else None)
    _add_to_locusts_answers(app, referee, base)
    for path, view in (
        ("/correctness", lambda: _page(referee)),
        ("/correctness/bar.js", lambda: send_file(_BAR_SCRIPT, max_age=0)),
        ("/correctness/state", lambda: jsonify(state(referee))),
        ("/correctness/report", lambda: _report(referee)),
    ):
        app.add_url_rule(f"{base}{path}", path, web_ui.auth_required_if_enabled(view))


def state(referee: Referee) -> dict[str, Any]:
    """Return what the bar and the verdict's page show."""
    run = referee.run
    found = [(kept.number, kept.verdict()) for kept in referee.runs]
    runs = [
        {"number": number, "verdict": verdict["verdict"], "title": verdict["title"]}
        for number, verdict in reversed(found)
        if verdict
    ]
    shown: dict[str, Any] = {
        "phase": "none",
        "problem": referee.problem,
        "rows": rows(run, referee.tally),
        "runs": runs,
    }
    if run is None:
        return shown
    figures = run.figures
    return shown | {
        "phase": run.phase,
        "sale": run.plan.sale if isinstance(run, PageRun) else run.files.number,
        "title": title(run),
        "verdict": verdict(run),
        "outcome": outcome(run),
        "broken": [to_builtins(finding) for finding in broken(run)],
        "done": run.phase == RUNNING and all_finished(run, referee.tally),
        "reason": run.reason or (phase(run) if run.phase == SETTLING else ""),
        "age": age(run),
        "run": run.files.number,
        "total": figures.get("total", 0),
        "reserved": figures.get("held", 0) + figures.get("confirmed", 0),
        "available": figures.get("available", 0),
        "held": figures.get("held", 0),
        "sold": figures.get("confirmed", 0),
        "purchases": figures.get("purchases", 0),
        "oversold": figures.get("oversold", 0),
    }


def _refuse_other_sites() -> Response | None:
    """Refuse POST requests that another site's page sends through a user's browser.

    Locust itself allows every origin. Programs send neither header.
    """
    if request.method in {"GET", "HEAD", "OPTIONS"}:
        return None
    site, origin = request.headers.get("Sec-Fetch-Site"), request.headers.get("Origin")
    if site is not None:
        own = site in {"same-origin", "none"}
    else:
        own = origin is None or urlsplit(origin).netloc == request.host
    return None if own else Response("Only Locust's own page may do this.", 403)


def _refuse_words(referee: Referee) -> Response | None:
    """Refuse a start with wrong numbers, of which Locust only says that an error occurred."""
    if problems := list(wrong_numbers(request.form)):
        referee.problem = "; ".join(problems)
        return jsonify({"success": False, "message": referee.problem})
    return None


def _add_to_locusts_answers(app: Flask, referee: Referee, base: str) -> None:
    @app.after_request
    def add(response: Response) -> Response:
        if request.path == f"{base}/stats/requests" and response.status_code == 200:
            # Locust caches this answer for two seconds: what was added before is replaced.
            answer = json.loads(response.get_data())
            shown = rows(referee.run, referee.tally)
            answer["extended_stats"] = [{"key": KEY, "data": shown}]
            # Until a run is prepared, Locust is as before it, and its page goes back to the form.
            answer["state"] = "spawning" if referee.starts else answer["state"]
            response.set_data(json.dumps(answer))
        elif request.path == f"{base}/" and response.status_code == 200:
            page = response.get_data(as_text=True)
            response.set_data(page.replace("</body>", _BAR))
        return response


def _page(referee: Referee) -> Response:
    """Return the page of a run: of the one that was chosen, else of the current or the last one."""
    number = request.args.get("run", "")
    run = referee.runs.find(int(number)) if number.isdecimal() else None
    if run is None and referee.run is not None and referee.run.phase == JUDGED:
        run = referee.run.files
    if run is not None and run.report.exists():
        text = run.report.read_text(encoding="utf-8")
    else:
        text = live(referee.run, referee)
    return Response(text.replace("<body>", f"<body>{_links(referee, run)}", 1))


def live(run: PageRun | RushRun | None, referee: Referee) -> str:
    """Return the page of a run that goes on, or the reason why there is none."""
    shown = figures_of(run, referee.tally) if run is not None else rows(None, referee.tally)
    now = [tuple(row[key] for key in COLUMNS) for row in shown]
    found = broken(run) if run is not None else []
    verdict_so_far = Verdict(
        [Finding(finding.id, finding.name, FAIL, finding.reason) for finding in found],
        histories={finding.id: History(finding.before, finding.history) for finding in found},
    )
    description = Description(
        "No run yet", reason=referee.problem or "Start a run on Locust's page."
    )
    word, evidence = "–", None
    if referee.problem:
        word = "The run could not start"
    elif run is not None:
        description = Description(title(run), reason=phase(run))
        word, evidence = verdict(run), stock_so_far(run.files)
    verdict_document = document(
        description, verdict_so_far, None, run.files if run else RunFiles(Path())
    )
    return render(verdict_document | {"headline": [word]}, evidence, now)


def _links(referee: Referee, shown: RunFolder | None) -> Markup:
    """Return the links to Locust's page, to the runs that are kept, and to the file of this one."""
    links = [Markup('<a href="./">← Locust</a>')]
    for kept in reversed(list(referee.runs)):
        if found := kept.verdict():
            link = Markup('<a href="./correctness?run={}">{}: {}</a>')
            links.append(link.format(kept.number, kept.number, found["verdict"].upper()))
    if shown is not None:
        link = Markup('<a href="./correctness/report?run={}&download" download>{}</a>')
        links.append(link.format(shown.number, "Download the report"))
    return Markup("<nav>{}</nav>").format(Markup(" ").join(links))


def _report(referee: Referee) -> Response:
    number = request.args.get("run", "")
    run = referee.runs.find(int(number)) if number.isdecimal() else None
    if run is None or not run.report.exists():
        return Response("This report does not exist or was deleted.", 404)
    name = f"run-{run.number}.html"
    download = "download" in request.args
    return send_file(run.report, max_age=0, as_attachment=download, download_name=name)
