"""What Locust's page knows of a run; the page itself is tested in a browser with the shop."""

from __future__ import annotations

import itertools
import json
import os
import shlex
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from loadtest.address import RunImpossible
from loadtest.calls import Finished, Tally
from loadtest.checker import Broken, snapshot
from loadtest.checker.report import Description, document
from loadtest.checker.report.terminal import verdict_last
from loadtest.checker.verdict import Finding, Problem, Step, Verdict
from loadtest.faults import FAULTS, Target
from loadtest.faults import process as faults
from loadtest.files import KEPT, RunFiles, RunFolder, Runs
from loadtest.run_plan import RunPlan
from loadtest.sales import During, item_of
from loadtest.shops import OURS
from loadtest.shops.flash_sale.adapter import Adapter as OurShop
from loadtest.shops.setup import installed, names, setup_of
from loadtest.shops.unguarded import Server
from loadtest.tests.simulated_world import World
from loadtest.tests.trivial_server import OVERLAP, ROUND_TRIP, in_thread
from loadtest.ui import pages
from loadtest.ui.other_shops import offered, running
from loadtest.ui.page import waiting_for
from loadtest.ui.referee import Referee
from loadtest.ui.run import JUDGED, PageRun
from loadtest.ui.rush_run import Rush, RushRun

FIGURES: dict[str, Any] = {
    "sale": 1,
    "item": 7,
    "strategy": "combining",
    "total": 10,
    "available": 2,
    "held": 6,
    "confirmed": 2,
    "ledger_sum": 2,
    "fence": 5,
    "oversold": 0,
    "purchases": 8,
    "pending": 1,
    "processes": 2,
    "degraded": False,
}


def a_plan(**more: Any) -> RunPlan:
    chosen = {"sale": "1", "strategy": "combining", "mix": "rush", "buyers": 5, "seed": 3}
    return RunPlan(**{**chosen, "stock": 10, "fenced": True, **more})


def a_run(figures: dict[str, Any] | None = None, **more: Any) -> PageRun:
    run = PageRun(a_plan(**more), OurShop("http://127.0.0.1:1"), RunFolder(Path("0")))
    run.sales.figures = FIGURES | (figures or {})
    return run


def shown(run: PageRun | RushRun, tally: Tally) -> dict[str, str]:
    return {row["what"]: row["value"] for row in pages.rows(run, tally)}


def test_tab_shows_what_all_processes_counted() -> None:
    rows = shown(a_run(), Tally.sum([Tally(ok=3, info=1), Tally(ok=1200)]))
    expected = {"Oversold": "0", "Held": "6", "Accepted": "1,203", "Unknown": "1"}
    assert rows.items() >= expected.items()
    assert "Late arrivals" not in rows
    assert shown(a_run(arrivals=5.0), Tally(late=2, unstarted=9))["Not started"] == "9"
    without_redis = a_run({"degraded": True})
    assert shown(without_redis, Tally())["Strategy"] == "combining, without Redis"


def test_tab_never_shows_a_boolean_and_keeps_its_order() -> None:
    run = a_run()
    run.phase, run.verdict = JUDGED, {"verdict": "pass"}
    rows = pages.rows(run, Tally())
    assert all(isinstance(value, str) for row in rows for value in row.values())
    assert [row["name"] for row in rows] == sorted(row["name"] for row in rows)
    assert shown(run, Tally())["Verdict"] == "PASS"


def test_tab_shows_a_broken_property_at_once(
    tmp_path: Path,
) -> None:
    world = World()
    for order in (1, 2):
        world.call(order, order, "order", 201, buyer="b", key="k", order=f"{order}")
    recorded = [str(path) for path in world.write(tmp_path / "recorded").histories()]
    shop, folder = OurShop("http://127.0.0.1:1"), Runs(tmp_path / "runs").new()
    run = PageRun(a_plan(), shop, folder, recorded=lambda: recorded)
    assert (pages.outcome(run), shown(run, Tally())["Verdict"]) == ("", "running")
    run.judge_so_far()
    assert (pages.outcome(run), shown(run, Tally())["Verdict"]) == ("fail", "FAIL")
    meanings = [row["meaning"] for row in pages.rows(run, Tally())[1:4]]
    assert meanings == [
        "key k was answered with order 1 and with order 2",
        "order: 1 of sale 1, key k → 201 order 1",
        "order: 1 of sale 1, key k → 201 order 2",
    ]
    # A history that cannot be read at this moment takes nothing back.
    Path(recorded[0]).write_text("no history\n")
    run.judge_so_far()
    assert [each.id for each in pages.broken(run)] == ["P5"]
    # Without a verdict in the end, nothing was shown to be broken.
    run.phase, run.verdict = JUDGED, {"verdict": "unknown"}
    assert pages.broken(run) == []


def test_page_of_a_run_shows_figures_and_broken_properties(
    tmp_path: Path,
) -> None:
    referee = Referee(Runs(tmp_path), list)
    assert "Start a run on Locust" in pages.live(None, referee)
    referee.problem = "stock must be at least 1"
    refused = pages.live(None, referee)
    assert "The run could not start" in refused
    assert "stock must be at least 1" in refused
    referee.forget()
    run = a_run()
    run.broken = [Broken("P1", "no oversell", "2 too many", 4, [Step("0 ms", "b", "a", "201")])]
    shown = pages.live(run, referee)
    for said in ('http-equiv="refresh"', ">FAIL</h1>", "2 too many", "accepted before it: 4"):
        assert said in shown
    assert shown.count("2 too many") == 1, "the figures do not repeat it"
    assert "Check it yourself" not in shown


def test_unused_sale_has_no_verdict() -> None:
    run = a_run({"purchases": 0})
    [row] = [row for row in pages.rows(run, Tally()) if row["what"] == "Oversold"]
    assert (pages.outcome(run), row["meaning"]) == ("", "no purchase yet")


def test_tab_says_when_all_users_are_done() -> None:
    run = a_run()
    assert not pages.all_finished(run, Tally(finished=4))
    assert pages.all_finished(run, Tally(finished=5))
    assert shown(run, Tally(finished=5))["Users done"] == "5 of 5"
    assert not pages.all_finished(a_run(endless=True), Tally(finished=5))


def test_verdict_without_a_page_is_printed_with_all_properties() -> None:
    run = a_run()
    problems = [Problem(letter, {}) for letter in "abcd"]
    finding = Finding("P1", "no oversell", "fail", "3 too many", problems)
    run.phase = JUDGED
    counts = dict.fromkeys(("ok", "fail", "info", "sold_out", "orders", "available", "lost"), 0)
    counts |= {"held": 100, "confirmed": 3, "total": 100, "oversold": 3}
    run.verdict = document(Description("t"), Verdict([finding], counts), None, run.files)
    assert list(waiting_for(run)) == []
    lines = list(verdict_last(run.verdict))
    first = next(number for number, line in enumerate(lines) if "P1" in line)
    assert lines[first].split() == ["P1", "FAIL", "no", "oversell:", "3", "too", "many"]
    assert [each.strip(" ·") for each in lines[first + 1 : first + 4]] == ["a", "b", "c"]
    assert lines[-1] == "BROKEN · 103 of 100 sold · 3 oversold"


def test_runs_are_kept_up_to_a_number(tmp_path: Path) -> None:
    kept = Runs(tmp_path / "runs")
    numbers = [kept.new().number for _ in range(KEPT + 3)]
    assert [run.number for run in kept] == numbers[3:]
    assert kept.find(numbers[0]) is None


def test_snapshots_of_a_long_run_are_thinned_out(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr("loadtest.sales.MAX_SNAPSHOTS", 8)
    snapshots = During(files := RunFiles(tmp_path))
    oversold = {**FIGURES, "total": 6, "available": -2, "ledger_sum": -2}
    for moment in range(1, 101):
        wrong = {43: oversold, 44: {**FIGURES, "ledger_sum": 9}}
        snapshots.add([item_of(FIGURES), item_of(wrong.get(moment, FIGURES))], moment)
    taken = [snapshot.read(path)[0].taken_at for path in files.during()]
    assert {43, 44} < set(taken)
    assert 4 <= len(taken) <= 10
    assert taken == sorted(taken)
    assert taken[-1] > 80
    assert max(b - a for a, b in itertools.pairwise(taken)) <= 32


@pytest.mark.parametrize(("stuck", "rested", "seconds"), [(0, True, 301), (7, False, 480)])
def test_run_waits_while_follow_ups_become_fewer(
    stuck: int, rested: bool, seconds: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, clock = a_run(), SimpleNamespace(now=0.0)

    def sleep(longer: float) -> None:
        clock.now += longer

    def look() -> bool:
        run.figures["pending"] = max(stuck, 300 - int(clock.now))
        return True

    monkeypatch.setattr(run.sales, "ask_figures", look)
    monkeypatch.setattr(run.sales, "_opened", {"main": None})
    times = SimpleNamespace(monotonic=lambda: clock.now, sleep=sleep)
    monkeypatch.setattr("loadtest.rest.time", times)
    assert run.sales.rest() is rested
    assert round(clock.now) == seconds


def test_verdict_is_unknown_if_the_shop_does_not_answer(tmp_path: Path) -> None:
    referee = Referee(Runs(tmp_path), list)
    run = referee.follow(a_plan(), OurShop("http://127.0.0.1:1"))
    assert "no figures: the shop does not answer" in run.reason
    run.end_load(1)
    assert list(waiting_for(run))
    assert run.outcome == "unknown"
    assert "no figures" in run.files.report.read_text()


def test_verdict_is_unknown_if_a_history_cannot_be_read(tmp_path: Path) -> None:
    folder = Runs(tmp_path).new()
    (tmp_path / "h.jsonl").write_text('{"event":"nothing"}\n')
    recorded = [str(tmp_path / "h.jsonl")]
    run = PageRun(a_plan(), OurShop("http://127.0.0.1:1"), folder, recorded=lambda: recorded)
    run.end_load(1)
    run.judge(run.sales)
    assert (run.files.verdict() or {})["verdict"] == "unknown"
    assert "h.jsonl:1: cannot be understood" in (run.files.verdict() or {})["reason"]


def test_fault_is_offered_only_where_its_target_is_known(tmp_path: Path) -> None:
    (tmp_path / "broken").write_text("{")
    for unknown in ("", str(tmp_path / "nothing"), str(tmp_path / "broken")):
        assert faults.offered(unknown) == []
    target = Target(web="", shop=1, database="", database_folder="", redis="", broker="")
    target.write(tmp_path / "target")
    none, every, *names = faults.offered(str(tmp_path / "target"))
    assert (none, every) == (faults.NONE, faults.ALL)
    assert {"redis-killed", "web-killed"} <= set(names)
    assert not [name for name in names if FAULTS[name].needs]


def test_processes_next_to_the_page_are_free_of_gevent() -> None:
    """Under which one that waits for its input would do nothing else."""
    judging = "loadtest.faults.process, loadtest.judge_process"
    code = f"import {judging}, sys; sys.exit('gevent' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_run_is_repeated_by_the_command_in_its_report() -> None:
    plan = a_plan(arrivals=50.0, faults=("redis-killed",))
    for option in ("--stock 10", "--arrivals 50", "--fault redis-killed"):
        assert option in plan.repeat
    assert not {"P9", "P12", "P19"} & set(plan.not_judged)
    assert "P12" in a_plan().not_judged
    assert "P19" in a_plan(mails=False).not_judged


def test_form_can_be_started_as_it_is_and_sells_out() -> None:
    code = """
import json
from locust.argument_parser import get_empty_argument_parser, setup_parser_arguments
from loadtest.options import add_options
parser = get_empty_argument_parser()
setup_parser_arguments(parser)
add_options(parser, shops=["flash_sale", "oscar"])
shops = parser.args_included_in_web_ui["shop"].choices
print(json.dumps(vars(parser.parse_args([])) | {"shops": shops}, default=str))
"""
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    form = json.loads(done.stdout)
    assert form["num_users"] > form["stock"] * form["limit"]
    assert form["num_users"] / form["spawn_rate"] <= 10
    assert (form["sale"], form["mix"], form["strategy"]) == ("new", "rush", "combining")
    assert (form["shop"], form["shops"]) == ("flash_sale", ["flash_sale", "oscar"])


def test_page_follows_a_rush_from_start_to_verdict(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ROUND_TRIP, OVERLAP)
    monkeypatch.setattr("loadtest.adapter_sale.LOOK", 0.05)
    referee = Referee(Runs(tmp_path / "runs"), list)
    with in_thread(Server(0, tmp_path)) as server:
        run = referee.follow_rush(Rush(server.url, "loadtest.shops.unguarded:Adapter", 2, 20, 2))
        assert pages.verdict(run) == "running"
        seen: list[tuple[int, str, str]] = []

        def see(_: Finished) -> None:
            seen.append((len(run.result.rounds), pages.verdict(run), pages.title(run)))

        run.everyone_is_here.set()
        run.play(see)
    # The verdict is known as soon as the first round is over, with the calls that show it.
    assert {word for rounds, word, _ in seen if not rounds} == {"running"}
    assert {word for rounds, word, _ in seen if rounds} == {"FAIL"}
    assert any("round 2 of 18 (enough, about" in title for _, _, title in seen)
    assert run.broken[0].id == "P1"
    assert run.broken[0].history
    assert (pages.verdict(run), pages.outcome(run), run.phase) == ("FAIL", "fail", JUDGED)
    rows = shown(run, Tally())
    assert (rows["Verdict"], rows["Rounds"]) == ("FAIL", "18")
    assert int(rows["Oversold"]) > 0
    assert [(each.verdict() or {})["verdict"] for each in referee.runs] == ["fail"]
    assert "The smallest history that shows it" in run.files.report.read_text()
    del run.result.rounds[1:]
    assert pages.title(run) == "loadtest.shops.unguarded:Adapter · 1 round"


def test_rush_that_is_stopped_has_no_verdict(tmp_path: Path) -> None:
    referee = Referee(Runs(tmp_path), list)
    run = referee.follow_rush(Rush("http://127.0.0.1:1", "a:B", 2, 20, 1))
    run.start("", print)
    run.close()
    assert pages.verdict(run) == "UNKNOWN"
    assert run.reason == "stopped before the first round was over"


HOST = """
import atexit, json, pathlib, signal, sys
folder, name = sys.argv[1:]
if name == "dying":
    sys.exit("no such table")
atexit.register(pathlib.Path(folder, "stopped").touch)
signal.signal(signal.SIGTERM, lambda *_: sys.exit())
print(json.dumps("starting its servers"), flush=True)
print(json.dumps({"url": "http://127.0.0.1:1", "environment": {"KEY_OF_SHOP": name}}), flush=True)
sys.stdin.read()
"""


def hosting(folder: Path) -> str:
    return shlex.join([sys.executable, "-c", HOST, str(folder)])


def test_hosted_shop_runs_with_the_adapters_environment(tmp_path: Path) -> None:
    said: list[str] = []
    with running(hosting(tmp_path), "oscar", said.append) as url:
        assert (url, os.environ["KEY_OF_SHOP"]) == ("http://127.0.0.1:1", "oscar")
        assert not (tmp_path / "stopped").exists()
    assert "KEY_OF_SHOP" not in os.environ
    assert (tmp_path / "stopped").exists()
    assert said == ["starting its servers"]


def test_hosted_shop_that_does_not_start_says_why(tmp_path: Path) -> None:
    with (
        pytest.raises(RunImpossible, match="dying does not start: no such table"),
        running(hosting(tmp_path), "dying", print),
    ):
        raise AssertionError("it must not start")


def test_form_offers_our_shop_and_the_installed_ones(tmp_path: Path) -> None:
    here = offered(str(tmp_path))
    assert here[0] == OURS
    assert set(here) == {name for name in names() if not setup_of(name).needs_packages}
    (tmp_path / "oscar").mkdir()
    (tmp_path / "oscar" / "filled").touch()
    assert set(offered(str(tmp_path))) - set(here) == {"oscar"}
    assert installed(tmp_path) == sorted(installed(tmp_path))
    assert offered("") == []
