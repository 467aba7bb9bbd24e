"""Locust, its page, history and checker together, against shops that are right and that are not."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import urllib3

from development.processes import Page
from loadtest.checker import FAIL, PASS, Verdict, judge
from loadtest.checker import snapshot as s
from loadtest.faults.fault import free_port, wait_until
from loadtest.files import RunFiles
from loadtest.history import INFO, OK, Operation, operations
from loadtest.options import FOR_ANY_SHOP, SWITCHES
from loadtest.scenarios import MIXES
from loadtest.shops.flash_sale.lifecycle import LIFECYCLE
from loadtest.shops.unguarded import Server
from loadtest.tests.fake_shop import FakeShop, serving
from loadtest.tests.trivial_server import OVERLAP, ROUND_TRIP, answering, in_thread

# A run ends when its buyers have finished, which takes a minute on a busy machine.
pytestmark = pytest.mark.timeout(300)

ROOT = Path(__file__).resolve().parents[2]
# Without faults and a payment provider; the rest is what any run can be judged by.
JUDGED = [f"P{number}" for number in range(1, 11)] + ["P13"]


def one_a_day(first: tuple[Any, ...], *others: tuple[Any, ...]) -> list[Any]:
    """Return parameters of which the first is tried every day, and the others are long."""
    return [first, *(pytest.param(*other, marks=pytest.mark.long) for other in others)]


def command_of(*arguments: str) -> list[str]:
    """Return the command that runs Locust without a page until its users have finished."""
    command = [
        sys.executable,
        "-m",
        "locust",
        "-f",
        str(ROOT / "loadtest" / "locustfile.py"),
        "--headless",
        "--only-summary",
        "--until-done",
        "--run-time",
        "120s",
        "--spawn-rate",
        "100",
        *arguments,
    ]
    if "--processes" in arguments:
        # Another test's master may have Locust's own port.
        port = str(free_port())
        command += ["--master-port", port, "--master-bind-port", port]
    return command


def locust(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run Locust without a page in a folder, until its users have finished."""
    command = command_of(*arguments)
    return subprocess.run(
        command, capture_output=True, text=True, timeout=240, check=False, cwd=folder
    )


def run_locust(shop: FakeShop, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    with serving(shop) as url:
        wanted = ("--host", url, "--sale", "1", "--users", "60", "--seed", "7")
        # From another folder, since Locust is given the file by its path.
        return locust(folder.parent, *wanted, "--history", str(folder), *arguments)


def sell(shop: FakeShop, folder: Path, *arguments: str) -> tuple[list[Operation], str]:
    """Run Locust on a shop that must be found right; what its buyers did, and what it printed."""
    done = run_locust(shop, folder, *arguments)
    assert done.returncode == 0, done.stderr
    assert broken(judged(shop, folder)) == set()
    return list(operations(*folder.glob("*.jsonl"))), done.stderr


def judged(shop: FakeShop, folder: Path) -> Verdict:
    header = s.Header(time.monotonic_ns(), ("confirmation",))
    files = RunFiles(folder)
    s.write(files.final, header, [*LIFECYCLE, *shop.rows()])
    return judge(files, properties=JUDGED)


def broken(verdict: Verdict) -> set[str]:
    return {each.id for each in verdict.properties if each.verdict == FAIL}


def test_locust_proves_a_correct_shop(tmp_path: Path) -> None:
    shop, folder = FakeShop(stock=10, opens_in=2.5), tmp_path / "history"
    calls, printed = sell(shop, folder)
    for said in ("order: 201", "order: sold_out", "All users have finished", "Closed loop"):
        assert said in printed
    assert (len(shop.orders), shop.available(shop.sales[0])) == (10, 0)
    assert Counter(each.status for each in calls if each.op == "order")[201] == 10
    assert not [each for each in calls if each.outcome == INFO]
    assert not [each for each in calls if each.code == "not_started"], "a buyer came too early"
    verdict = judged(shop, folder)
    assert verdict.verdict == PASS, verdict.to_json()
    assert verdict.counts["ok"] == verdict.counts["orders"] == verdict.counts["total"] == 10


@pytest.mark.long
def test_locust_processes_have_their_own_buyers_and_histories(tmp_path: Path) -> None:
    calls, _ = sell(FakeShop(stock=10), tmp_path / "history", "--processes", "2", "--mix", "all")
    assert len(list(tmp_path.glob("history/*.jsonl"))) == 2
    # Whom a user takes along as a friend is numbered after them.
    buyers = {tuple(each.buyer.split(".")[:4]) for each in calls}
    assert len(buyers) <= 60
    assert len({each.buyer.split(".")[0] for each in calls}) == 2
    assert len({each.call for each in calls}) == len(calls)


@pytest.mark.parametrize(
    ("bug", "identity", "oversold"),
    [("oversell", "P1", 5), pytest.param("duplicate", "P5", 0, marks=pytest.mark.long)],
)
def test_locust_finds_a_bug_by_its_property(
    bug: str, identity: str, oversold: int, tmp_path: Path
) -> None:
    shop, folder = FakeShop(stock=10, bug=bug), tmp_path / "history"
    done = run_locust(shop, folder)
    # 1: the buyers themselves have met answers that a right shop does not give.
    assert done.returncode in (0, 1), done.stderr
    verdict = judged(shop, folder)
    assert identity in broken(verdict)
    assert verdict.counts["oversold"] == oversold


@pytest.mark.long
@pytest.mark.parametrize("mix", sorted(set(MIXES) - {"rush", "all"}))
def test_mixes_do_what_they_are_named_for(mix: str, tmp_path: Path) -> None:
    opens_in = 10 if mix == "bots" else 2  # bots are there before it
    shop = FakeShop(stock=40, limit=2, opens_in=opens_in)
    calls, _ = sell(shop, tmp_path / "history", "--mix", mix)
    ok = {each.op for each in calls if each.outcome == OK}
    assert {"payers": {"payment", "cancel"}, "refunders": {"refund"}}.get(mix, {"order"}) <= ok
    if mix == "doubles":
        assert any(each.attempt == 2 and each.outcome == OK for each in calls)
    if mix == "bots":
        assert {"not_started", "limit_reached"} <= {each.code for each in calls}


@pytest.mark.long
def test_open_loop_buyers_come_at_their_own_times(tmp_path: Path) -> None:
    totals = tmp_path / "totals"
    arguments = ("--arrivals", "100", "--totals", str(totals))
    calls, printed = sell(FakeShop(stock=10), tmp_path / "history", *arguments)
    told = json.loads(totals.read_text())
    assert (told["finished"], told["unstarted"]) == (60, 0)
    assert "Open loop: 100 buyers came per second" in printed
    calls = [each for each in calls if each.due is not None]
    dues = sorted(each.due for each in calls if each.due is not None)
    # One a buyer: what they do next follows from what they are told.
    assert len(calls) == len({each.buyer for each in calls}) == len(set(dues)) == 60
    assert all(each.start >= (each.due or 0) for each in calls)
    # Sixty at a hundred a second; far from it only in one run of many millions.
    assert 0.2 < (dues[-1] - dues[0]) / 1e9 < 1.5


@pytest.mark.long
def test_locust_seed_repeats_the_same_buyers(tmp_path: Path) -> None:
    def asked(number: int) -> list[tuple[str, str]]:
        calls, _ = sell(FakeShop(stock=1000, limit=3), tmp_path / str(number))
        # What a buyer does, in their own order; buyers of different runs have other names.
        return sorted((each.buyer.split(".", 2)[2], f"{each.op} {each.quantity}") for each in calls)

    assert asked(1) == asked(2)


@pytest.mark.parametrize(
    ("arguments", "reason"),
    one_a_day(
        (["--sale", "99"], "there is no sale '99'"),
        (["--host", "http://192.0.2.1:80"], "LOADTEST_ALLOW_HOST=192.0.2.1"),
        (["--weights", "nobody=1"], "'nobody=1' is not a behaviour"),
        (["--stock", "0"], "stock must be at least 1"),
        (["--users", "0"], "users must be at least 1"),
        (["--stock", "0", "--limit", "0"], "stock must be at least 1; limit must be at least 1"),
    ),
)
def test_locust_run_that_cannot_start_says_why_and_ends(
    arguments: list[str], reason: str, tmp_path: Path
) -> None:
    shop = FakeShop()
    done = run_locust(shop, tmp_path / "history", *arguments)
    assert done.returncode == 2, done.stderr
    assert reason in done.stderr
    assert shop.purchases == 0


def load_by_locust(
    url: str, folder: Path, shop: str, *more: str
) -> subprocess.CompletedProcess[str]:
    size = ("--users", "30", "--stock", "5", "--runs", str(folder / "runs"))
    # A user's module, in the folder in which Locust is started, may be called like our package.
    (folder / "shop.py").write_text("from loadtest.shops.unguarded import Adapter")
    return locust(folder, *size, "--shop", shop, "--host", url, *more)


@pytest.mark.parametrize(
    ("guarded", "code", "word", "more"),
    [
        (False, 1, "BROKEN", []),
        # The master rushes, so that all requests leave at one moment.
        pytest.param(True, 0, "HOLDS", ["--processes", "2"], marks=pytest.mark.long),
    ],
)
def test_locust_judges_another_shop_through_its_adapter(
    guarded: bool,
    code: int,
    word: str,
    more: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if not guarded:
        monkeypatch.setattr(ROUND_TRIP, OVERLAP)
    with in_thread(Server(0, tmp_path, guarded=guarded)) as server:
        done = load_by_locust(server.url, tmp_path, "shop:Adapter", "--rounds", "1", *more)
    assert done.returncode == code, done.stderr
    assert "order: 201" in done.stderr
    assert done.stdout.splitlines()[-1].startswith(word)
    assert f"P1 {'PASS' if guarded else 'FAIL'}" in done.stdout
    assert "the shop does not offer repeats: P5" in done.stdout
    report = (tmp_path / "runs" / "0001" / "report.html").read_text()
    assert word in report
    assert "python -m loadtest --headless --until-done" in report
    assert "--shop shop:Adapter" in report


@pytest.mark.parametrize(
    ("url", "shop", "said"),
    one_a_day(
        ("http://127.0.0.1:1", "no_such:Adapter", "loading the adapter no_such:Adapter failed"),
        ("http://shop.example", "loadtest.shops.unguarded:Adapter", "--i-own-this-host"),
        ("http://127.0.0.1:1", "loadtest.shops.unguarded:Adapter", "opening a sale failed"),
    ),
)
def test_locust_gives_no_verdict_of_a_shop_it_cannot_rush(
    url: str, shop: str, said: str, tmp_path: Path
) -> None:
    done = load_by_locust(url, tmp_path, shop)
    assert done.returncode == 2, done.stderr
    assert said in done.stdout + done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.long
@pytest.mark.parametrize(
    ("guarded", "code", "word", "more"),
    [
        (False, 1, "BROKEN", []),
        (True, 0, "HOLDS", ["--arrivals", "100"]),
    ],
)
def test_locust_loads_and_judges_another_shop_with_a_mix(
    guarded: bool,
    code: int,
    word: str,
    more: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if not guarded:
        monkeypatch.setattr(ROUND_TRIP, OVERLAP)
    with in_thread(Server(0, tmp_path, guarded=guarded)) as server:
        done = load_by_locust(server.url, tmp_path, "shop:Adapter", "--mix", "buyers", *more)
    assert done.returncode == code, done.stderr
    for said in ("cart: 200", "order: 201", f"{'Open' if more else 'Closed'} loop"):
        assert said in done.stderr
    assert done.stdout.splitlines()[-1].startswith(word)
    assert f"P1 {'PASS' if guarded else 'FAIL'}" in done.stdout
    told = json.loads((tmp_path / "runs" / "0001" / "verdict.json").read_text())
    assert told["facts"]["buyers"].startswith("buyers, ")
    assert "--mix buyers" in told["repeat"]


@pytest.mark.parametrize(
    ("more", "said"),
    one_a_day(
        (("--mix", "payers"), "take rush or buyers for loadtest.shops.unguarded:Adapter"),
        (("--mix", "buyers", "--processes", "2"), "runs in one process"),
        (("--mix", "buyers", "--weights", "repeat=1"), "the shop does not offer repeats"),
        (("--mix", "buyers", "--weights", "nobody=1"), "'nobody=1' is not a behaviour"),
        (("--mix", "buyers"), "opening a sale failed"),
    ),
)
def test_mix_that_cannot_start_says_why(more: tuple[str, ...], said: str, tmp_path: Path) -> None:
    shop = "loadtest.shops.unguarded:Adapter"
    with in_thread(Server(0, tmp_path, guarded=True)) as server:
        url = server.url if "--weights" in more else "http://127.0.0.1:1"
        done = load_by_locust(url, tmp_path, shop, *more)
    assert done.returncode == 2, done.stderr
    assert said in done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    if "--processes" not in more:
        reason, closing = done.stdout.splitlines()[-2:]
        assert said in reason
        assert closing == "COULD NOT BE JUDGED"


# A shell that runs the tests in the background has them, and what they start, ignore Ctrl-C.
INTERRUPTIBLE = """
import runpy, signal
signal.signal(signal.SIGINT, signal.default_int_handler)
runpy.run_module("locust", run_name="__main__", alter_sys=True)
"""


def test_interrupted_mix_is_judged_on_what_was_done(tmp_path: Path) -> None:
    shop, runs = "loadtest.shops.unguarded:Adapter", tmp_path / "runs"
    # Each user needs a while between two steps, so that 4 users are too few for 500 per second.
    load = ("--users", "4", "--stock", "5", "--rounds", "10000", "--arrivals", "500")
    with in_thread(Server(0, tmp_path, guarded=True)) as server:
        wanted = ("--shop", shop, "--host", server.url, "--mix", "buyers", "--runs", str(runs))
        arguments = command_of(*wanted, *load)[3:]
        with subprocess.Popen(
            [sys.executable, "-c", INTERRUPTIBLE, *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=tmp_path,
        ) as running:
            history = runs / "0001" / "buyers.jsonl"
            wait_until(
                "buyers are refused",
                lambda: history.exists() and "sold_out" in history.read_text(),
            )
            running.send_signal(signal.SIGINT)
            printed, logged = running.communicate(timeout=120)
    assert running.returncode == 0, logged
    assert "KeyboardInterrupt" not in logged
    assert printed.splitlines()[-1].startswith("HOLDS · stopped early · 5 of 5 sold")
    told = json.loads((runs / "0001" / "verdict.json").read_text())
    assert told["stopped"].startswith("The run was stopped early: 0 of 4 users")
    assert told["stopped"] in (runs / "0001" / "report.html").read_text()
    assert "how the shop serves 500 buyers per second" in told["left_open"][0]


def test_help_lists_the_options_of_this_load_test() -> None:
    command = [sys.executable, "-m", "loadtest", "--help"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    for name in ("shop", *FOR_ANY_SHOP, *SWITCHES):
        assert f"  --{name}" in done.stdout
    assert done.stderr == ""


WORDS = {"user_count": "1", "spawn_rate": "1", "sale": "1"}
POSTS = ["/swarm", "/stop", "/stats/reset"]


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """The address of a running Locust's page."""
    with serving(FakeShop()) as shop, page("--host", shop) as found:
        yield found


@contextmanager
def page(*arguments: str) -> Iterator[str]:
    """Run Locust with its page during the block; yield the page's address."""
    port = free_port()
    words = [
        "locust",
        "-f",
        "loadtest/locustfile.py",
        "--web-host",
        "127.0.0.1",
        "--web-port",
        str(port),
        *arguments,
    ]
    with Page("locust", words, "/", port=port) as running:
        yield running.endpoint


def test_form_of_another_shop_has_only_what_applies_to_any_shop() -> None:
    with page("--shop", "loadtest.shops.unguarded:Adapter", "--host", "http://127.0.0.1:1") as url:
        shown = urllib3.request("GET", url, timeout=30).data.decode()
    options = shown.partition('"extra_options": ')[2]
    found = json.JSONDecoder().raw_decode(options)[0]
    assert list(found) == ["stock", "mix", "weights", "arrivals", "rounds", "seed"]
    assert found["mix"]["choices"] == ["rush", "buyers"]


def post(address: str, path: str, host: str = "", **headers: str) -> int:
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    url, fields = f"{address}{path}", WORDS | ({"host": host} if host else {})
    answer = urllib3.request("POST", url, fields=fields, headers=sent, retries=False, timeout=30)
    return answer.status


def state(address: str) -> str:
    answer = urllib3.request("GET", f"{address}/stats/requests", timeout=30)
    return str(answer.json()["state"])


@pytest.mark.parametrize("path", POSTS)
@pytest.mark.parametrize(
    "headers",
    [
        {"Sec_Fetch_Site": "cross-site", "Origin": "https://evil.example"},
        {"Sec_Fetch_Site": "same-site", "Origin": "http://127.0.0.1:1"},
        {"Origin": "https://evil.example"},
        {"Origin": "http://127.0.0.1:1"},
        {"Origin": "null"},
    ],
    ids=lambda headers: " ".join(headers.values()),
)
def test_locust_refuses_a_post_from_another_site(
    path: str, headers: dict[str, str], address: str
) -> None:
    assert post(address, path, **headers) == 403
    assert state(address) in ("ready", "stopped")


def test_posts_of_its_own_page_and_of_programs_are_done(address: str) -> None:
    assert post(address, "/stop", Origin=address) == 200
    assert post(address, "/stop", Sec_Fetch_Site="same-origin", Origin="https://a-proxy") == 200
    assert post(address, "/stop") == 200


def test_locust_page_may_be_linked_from_other_sites(address: str) -> None:
    headers = {"Sec-Fetch-Site": "cross-site", "Origin": "https://elsewhere.example"}
    assert urllib3.request("GET", address, headers=headers, timeout=30).status == 200


def test_locust_page_shows_a_run_while_it_is_prepared(address: str) -> None:
    answers = threading.Event()
    with answering(lambda *_: None, delay=answers) as shop:
        try:
            assert post(address, "/swarm", f"http://127.0.0.1:{shop}") == 200
            wait_until("the shop is asked", lambda: state(address) == "spawning", 20)
        finally:
            answers.set()
        wait_until("the shop's silence ends the start", lambda: state(address) == "stopped")


@pytest.mark.long
def test_locust_judges_a_shop_without_books_by_orders(tmp_path: Path) -> None:
    shop, tokens = FakeShop(stock=10, opens_in=4.0, bug="duplicate"), tmp_path / "tokens"
    tokens.write_text("\n".join(f"b{number}" for number in range(1, 41)))
    with serving(shop) as url:
        done = locust(
            tmp_path,
            "--host",
            url,
            "--sale",
            "1",
            "--tokens",
            str(tokens),
            "--users",
            "40",
            "--runs",
            str(tmp_path / "runs"),
            "--seed",
            "7",
        )
    assert done.returncode == 1, done.stderr
    verdict = json.loads((tmp_path / "runs" / "0001" / "verdict.json").read_text())
    assert {each["id"] for each in verdict["properties"] if each["verdict"] == FAIL} == {"P5"}
    assert verdict["not_judged"]["P7"] == "the shop's books cannot be read here"
    assert verdict["counts"]["held"] == 10


@pytest.mark.parametrize(
    ("wanted", "said"),
    one_a_day(
        (("--users", "41"), "40 accounts are too few for 41 users"),
        (
            ("--users", "4", "--mix", "carts"),
            "needs further sales: name them, --further-sales cart_a=ID",
        ),
        (("--users", "4", "--sale", "new"), "name it with --sale"),
        (("--users", "4", "--tokens", "nowhere"), "cannot be read"),
    ),
)
def test_locust_refuses_a_load_that_the_shop_cannot_have(
    wanted: tuple[str, ...], said: str, tmp_path: Path
) -> None:
    tokens = tmp_path / "tokens"
    tokens.write_text("\n".join(f"b{number}" for number in range(40)))
    with serving(FakeShop()) as url:
        done = locust(tmp_path, "--host", url, "--sale", "1", "--tokens", str(tokens), *wanted)
    assert done.returncode == 2
    assert said in done.stderr
