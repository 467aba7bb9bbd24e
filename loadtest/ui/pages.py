"""The additions to Locust's page: the tab, the bar at the bottom, and the verdict's page."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from flask import Flask, Response, jsonify, request, send_file
from locust.web import WebUI
from msgspec import to_builtins

from loadtest.address import RunImpossible
from loadtest.shops.flash_sale.demo import ShopRefused
from loadtest.ui import tab
from loadtest.ui.referee import Referee
from loadtest.ui.run import RUNNING, PageRun

_HERE = Path(__file__).parent
_BAR = '<script src="./correctness/bar.js"></script></body>'

# Opens a fresh sale and shows it. Raises `ShopRefused` or `RunImpossible`.
Reset = Callable[[], None]


def install(web_ui: WebUI, referee: Referee, reset: Reset, base: str = "") -> None:
    """Add everything to the page; `base` is the path prefix of Locust's pages."""
    for name, part in (("extended_tabs", tab.TAB), ("extended_tables", tab.TABLE)):
        web_ui.template_args.setdefault(name, []).append(part)
    app = web_ui.app
    assert app is not None
    # Keep the form's options in the order in which they were added.
    app.jinja_env.policies["json.dumps_kwargs"] = {"sort_keys": False}
    app.before_request(_refuse_other_sites)
    _add_to_locusts_answers(app, referee, base)
    for path, view, method in (
        ("/correctness", _file("verdict.html"), "GET"),
        ("/correctness/bar.js", _file("bar.js"), "GET"),
        ("/correctness/verdict.js", _file("verdict.js"), "GET"),
        ("/correctness/state", lambda: jsonify(state(referee)), "GET"),
        ("/correctness/report", lambda: _report(referee), "GET"),
        ("/correctness/reset", lambda: _reset(referee, reset), "POST"),
    ):
        app.add_url_rule(
            f"{base}{path}",
            f"{method} {path}",
            web_ui.auth_required_if_enabled(view),
            methods=[method],
        )


def state(referee: Referee) -> dict[str, Any]:
    """Return what the bar and the verdict's page show."""
    run = referee.run
    found = [(each.number, each.verdict()) for each in referee.runs]
    runs = [
        {"number": number, "verdict": verdict["verdict"], "title": verdict["title"]}
        for number, verdict in reversed(found)
        if verdict
    ]
    shown: dict[str, Any] = {
        "phase": "none",
        "problem": referee.problem,
        "rows": tab.rows(run, referee.tally),
        "runs": runs,
    }
    if run is None:
        return shown
    figures = run.figures
    return shown | {
        "phase": run.phase,
        "sale": run.plan.sale if isinstance(run, PageRun) else run.number,
        "title": tab.title(run),
        "verdict": tab.verdict(run),
        "outcome": tab.outcome(run),
        "broken": [to_builtins(each) for each in tab.broken(run)],
        "done": run.phase == RUNNING and tab.all_finished(run, referee.tally),
        "reason": run.reason,
        "run": run.number,
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


def _add_to_locusts_answers(app: Flask, referee: Referee, base: str) -> None:
    @app.after_request
    def add(response: Response) -> Response:
        if request.path == f"{base}/stats/requests" and response.status_code == 200:
            # Locust caches this answer for two seconds: what was added before is replaced.
            answer = json.loads(response.get_data())
            rows = tab.rows(referee.run, referee.tally)
            answer["extended_stats"] = [{"key": tab.KEY, "data": rows}]
            response.set_data(json.dumps(answer))
        elif request.path == f"{base}/" and response.status_code == 200:
            page = response.get_data(as_text=True)
            response.set_data(page.replace("</body>", _BAR))
        return response


def _file(name: str) -> Callable[[], Response]:
    return lambda: send_file(_HERE / name, max_age=0)


def _report(referee: Referee) -> Response:
    number = request.args.get("run", "")
    run = referee.runs.find(int(number)) if number.isdecimal() else None
    if run is None or not run.report.exists():
        return Response("This report does not exist or was deleted.", 404)
    name = f"run-{run.number}.html"
    download = "download" in request.args
    return send_file(run.report, max_age=0, as_attachment=download, download_name=name)


def _reset(referee: Referee, reset: Reset) -> Response:
    if referee.run is not None and referee.run.phase == "running":
        return Response("A run is in progress. Stop it first.", 409)
    try:
        reset()
    except (ShopRefused, RunImpossible) as error:
        return Response(str(error), 502)
    return jsonify(state(referee))
