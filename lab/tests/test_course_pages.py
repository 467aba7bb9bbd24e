"""The lock lab: positions are functions of their moves, and the pages show them."""

from __future__ import annotations

from random import Random

import pytest
from django.test import Client
from playwright.sync_api import expect

from course.lesson import find, scenarios
from course.models import Progress
from course.position import LONGEST, Impossible, parse, position, write
from course.report import report
from course.rush import RushResult
from course.simulator.schedule import Act
from course.tests.conftest import dropped_leases
from course.tests.test_lessons import toy
from shop.accounts.models import User
from shop.tests.catalogue import a_buyer
from shop.tests.test_browser import chromium, open_page

__all__ = ["chromium", "dropped_leases", "open_page", "toy"]

# A position ends while clients of the production lock still hold their leases.
pytestmark = [
    pytest.mark.usefixtures("dropped_leases"),
    pytest.mark.filterwarnings("ignore:the lease of lock:ResourceWarning"),
]

FIRST = find("1").scenarios[0]


def name(scenario) -> str:
    return scenario.id


@pytest.mark.parametrize("scenario", scenarios(), ids=name)
def test_moves_shown_break_the_lock_but_not_the_fixed_one(scenario):
    played = report(scenario)
    after = position(scenario, parse(write(played.broken.moves)))
    assert after.over
    found = {one["wrong"] for one in after.violations}
    wrong = scenario.flaw.wrong
    assert (wrong in found) == (wrong is not None)
    fixed = position(scenario, played.fixed.moves, fixed=True)
    assert fixed.over
    assert wrong not in {one["wrong"] for one in fixed.violations}


def test_position_names_each_clients_line_and_command():
    here = position(FIRST, parse("A.+"))
    a, b, visitor = here.clients
    assert (a.code, a.command) == (
        "self._client.expire(self._name, self._ttl)",
        "EXPIRE stock 10",
    )
    assert (b.state, b.command) == ("ready", "SETNX stock 1")
    assert (visitor.state, visitor.until) == ("new", 86_400.0)
    assert here.keys == [{"server": "redis", "key": "stock", "value": "1", "left": None}]
    assert (here.over, here.violations) == (False, [])
    (first, *_) = position(find("token-lua").scenarios[1], [], fixed=True).clients
    assert first.command == "acquire.lua A 10000 f 1", "a token is random, and its owner is not"


def test_position_after_waiting_is_at_the_end_of_the_lease():
    lesson = find("6").scenarios[0]
    waits = position(lesson, parse("A.+"))  # nobody can act until B comes; it then does not
    assert waits.now == 10.001
    assert waits.keys == []
    assert position(lesson, parse("A.+.B")).violations[0]["wrong"] == "two holders at once"
    key = next(bar for bar in waits.bars if bar.kind == "key")
    assert (key.begin, key.end) == (0.001, 10.001)


@pytest.mark.parametrize(
    ("moves", "why"),
    [
        ("A.A B", "no move: A B"),
        ("Z", "Z is not there"),
        ("B", "B is not there|B cannot act now"),
        ("A!.A", "A is not there"),
        ("A*2000", "more than 1500 moves"),
        ("A." * LONGEST, "longer than"),
    ],
)
def test_move_that_is_impossible_is_refused(moves, why):
    with pytest.raises(Impossible, match=why):
        position(FIRST, parse(moves))


def test_position_shows_the_end_of_a_disconnected_client():
    after = position(find("lost-commit").scenarios[0], parse("A.A>.A>"), fixed=True)
    assert [client.state for client in after.clients] == ["done"]
    assert "ends with OperationalError" in after.history[-1]["what"]


def test_move_with_a_fault_that_the_server_lacks_is_refused():
    with pytest.raises(Impossible, match="the simulated database cannot lose message"):
        position(find("table-row").scenarios[0], parse("A?"))


@pytest.mark.parametrize("fixed", [False, True])
@pytest.mark.parametrize("scenario", scenarios(), ids=name)
def test_moves_that_a_position_offers_can_be_made(scenario, fixed):
    dice, moves = Random(5), list[str]()
    for _ in range(20):
        here = position(scenario, moves, fixed=fixed)
        ready = [client.name for client in here.clients if client.state == "ready"]
        living = [one.name for one in here.clients if one.state in ("ready", "waiting")]
        offered = ready * 4 + [f"{one}{mark}" for one in living[:1] for mark in "!~"]
        if Act.LOSE_REPLY in scenario.flaw.faults.acts:
            offered += [f"{one}{mark}" for one in ready for mark in "<>"]
        offered += ["+"] if here.next_event is not None else []
        if here.over:
            break
        moves.append(dice.choice(offered))
    assert moves


@pytest.mark.django_db
@pytest.mark.long
def test_lesson_pages_and_positions_need_no_account(client):
    assert client.get("/locks/").status_code == 200
    for scenario in scenarios():
        page = client.get(f"/locks/{name(scenario)}/")
        assert page.status_code == 200
        assert "unsafe-inline" not in page.headers["Content-Security-Policy"]
    at = "/locks/setnx-expire/crash/at/"
    assert client.get(at, {"moves": "A.A!"}).json()["clients"][0]["state"] == "dead"
    assert client.get(at, {"moves": "A.Z"}).json() == {"error": "Z is not there", "move": 2}
    assert client.get(at, {"moves": "A.Z"}).status_code == 400
    assert client.get("/locks/setnx-expire/no-such/").status_code == 404
    assert client.get("/locks/no-such/crash/at/").status_code == 404


MINE = "/locks/setnx-expire/mine/"


@pytest.mark.django_db
def test_own_lock_is_judged_only_for_signed_in_users_here(client, settings):
    here, elsewhere = {"HTTP_HOST": "127.0.0.1"}, {"REMOTE_ADDR": "192.0.2.7"}
    code = {"code": "import os"}
    assert client.post(MINE, code, **here).status_code == 403
    client.force_login(User.objects.create_user("ann"))
    assert client.post(MINE, code, **here).status_code == 200
    assert client.post(MINE, code, **here, **elsewhere).status_code == 403
    settings.ALLOWED_HOSTS = ["*"]
    assert client.post(MINE, code, HTTP_HOST="shop.example").status_code == 403
    staff = User.objects.create_user("staff", is_staff=True)
    client.force_login(staff)
    assert client.post(MINE, code, **elsewhere).status_code == 403, "whose password is known"
    settings.COURSE_OPEN = False
    assert client.post(MINE, code, **elsewhere).status_code == 200
    client.force_login(User.objects.get(username="ann"))
    assert client.post(MINE, code, **here).status_code == 403


@pytest.mark.django_db
def test_own_lock_is_answered_with_what_breaks_it():
    client = Client(HTTP_HOST="127.0.0.1")
    client.force_login(User.objects.create_user("staff", is_staff=True))
    assert client.post(MINE, {"code": "import os"}).json()["error"].startswith("my_lock.py: it may")
    broken = find("1").start.read_text()
    found = client.post(MINE, {"code": f"print('seen')\n{broken}"}).json()
    assert "✗ nobody can ever enter" in found["timeline"]
    assert found["output"].startswith("seen\n")
    client.cookies["django_language"] = "zh-hans"
    assert "它不能导入 os" in client.post(MINE, {"code": "import os"}).json()["error"]
    found = client.post(MINE, {"code": broken}).json()
    assert found["wrong"].startswith("再也没有客户端能进入")
    assert "崩溃" in found["how"]


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("result", "noted"),
    [
        (RushResult(), True),
        pytest.param(RushResult(unheld="no database"), True, marks=pytest.mark.long),
        (RushResult(problems=("more orders than units",)), False),
        pytest.param(RushResult(error="f.py: it took too long"), False, marks=pytest.mark.long),
    ],
)
def test_own_stock_is_rushed_once_the_simulator_finds_nothing(monkeypatch, result, noted):
    client, ann = Client(HTTP_HOST="127.0.0.1"), User.objects.create_user("ann")
    client.force_login(ann)
    rushed = []

    def hold(*given):
        rushed.append(given)
        return result

    monkeypatch.setattr("course.views.hold", hold)
    stock = "/locks/stock-oversold/mine/"
    found = client.post(stock, {"code": find("19").start.read_text()}).json()
    assert found["wrong"].startswith("oversold")
    assert found["rush"] is None
    assert not rushed
    found = client.post(stock, {"code": find("19").solution.read_text()}).json()
    assert found["rush"]["wrong"] == (result.error or "".join(result.problems))
    assert "dbname=" in rushed[0][3]
    assert ("stock-oversold/own" in Progress.of(ann)) is noted


@pytest.mark.django_db
def test_progress_is_kept_per_learner_for_moves_that_break(client):
    ann = User.objects.create_user("ann")
    broken = "/locks/setnx-expire/crash/broken/"
    moves = write(report(FIRST).broken.moves)
    assert client.post(broken, {"moves": moves}).status_code == 200
    client.force_login(ann)
    assert client.post(broken, {"moves": "A.A"}).status_code == 400
    assert client.post(broken, {"moves": "A.Z"}).status_code == 400
    assert Progress.of(ann) == {}, "neither a visitor's nor what breaks nothing"
    for _ in range(2):
        assert client.post(broken, {"moves": moves}).status_code == 200
    assert Progress.of(ann) == {"setnx-expire/crash": len(parse(moves))}
    client.post(MINE, {"code": find("1").solution.read_text()}, HTTP_HOST="127.0.0.1")
    assert Progress.of(ann)["setnx-expire/own"] == 0


@pytest.mark.django_db
def test_teacher_sees_who_has_broken_what_and_learners_do_not(client):
    ann = User.objects.create_user("ann")
    Progress.note(ann, FIRST.id, moves=4)
    client.force_login(ann)
    assert client.get("/locks/class/").status_code == 404
    client.force_login(User.objects.create_superuser("teacher"))
    page = client.get("/locks/class/").text
    assert 'data-learner="ann"' in page
    assert "<td>1 / 31</td><td>1/1</td>" in page
    assert "/locks/class/" in client.get("/locks/").text


@pytest.mark.django_db
def test_task_does_not_name_its_solution_and_hints_come_in_steps(client):
    page = client.get("/locks/setnx-expire/crash/").text
    task = page[: page.index("data-lab hidden")]
    assert "The holder crashes" not in task
    hints = ("It needs a fault", "The scheduler, before command 2", "Show me")
    places = [page.index(hint) for hint in hints]
    assert places == sorted(places)
    own = ("NX and EX", "A second hint: what the code that holds does", "A solution")
    places = [page.index(hint) for hint in own]
    assert places == sorted(places)


@pytest.mark.django_db
def test_lesson_page_is_in_the_visitors_language(client):
    english = client.get("/locks/setnx-getset/fast-clock/").content.decode()
    assert "<p>The value is the time at which the lock ends." in english
    client.cookies["django_language"] = "zh-hans"
    assert "值是锁结束的时刻" in client.get("/locks/setnx-getset/fast-clock/").content.decode()
    position = client.get("/locks/setnx-expire/crash/at/", {"moves": "A.A!"})
    assert position.json()["history"][-1]["what"] == "崩溃"
    assert "Cookie" in position.headers["Vary"]
    listed = client.get("/locks/").content.decode()
    assert "时钟偏快的客户端抢走有效的锁" in listed


@pytest.mark.django_db
@pytest.mark.usefixtures("toy")
def test_lesson_folder_appears_on_the_pages(client):
    assert "A toy lock" in client.get("/locks/").content.decode()
    assert "Two look before one takes" in client.get("/locks/toy-lock/race/").content.decode()


@pytest.fixture
def buyer():
    staff = a_buyer()
    staff.is_staff = True
    staff.save()
    return staff


@pytest.mark.browser
@pytest.mark.long
@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("number", ["1", "3", "7"])
def test_lesson_is_broken_by_its_buttons_and_explains_itself(open_page, number):
    scenario = find(number).scenarios[0]
    page = open_page(f"/locks/{scenario.id}/")
    page.set_viewport_size({"width": 1280, "height": 800})
    lab = page.locator("[data-lab]")
    expect(lab).to_have_attribute("data-shown", "broken/")
    made: list[str] = []
    for move in report(scenario).broken.moves:
        page.locator(f"[data-move='{move}']:enabled").click()
        made.append(move)
        expect(lab).to_have_attribute("data-shown", f"broken/{write(made)}")
    expect(page.locator("[data-verdict]")).to_contain_text(f"Broken: {scenario.flaw.wrong}")
    expect(page.locator("[data-verdict]")).to_contain_text("You broke it.")
    expect(page.locator("[data-why]")).to_contain_text(scenario.text().title)
    expect(page.locator("[data-why] a.button")).to_contain_text("Next: ")


@pytest.mark.browser
@pytest.mark.long
@pytest.mark.django_db(transaction=True)
def test_code_and_buttons_of_both_clients_are_on_one_screen(open_page):
    page = open_page("/locks/setnx-expire/crash/#A.+")
    page.set_viewport_size({"width": 1280, "height": 800})
    for name, line in (("A", "self._client.expire"), ("B", "while not self._client.setnx")):
        lane = page.locator(f".lane[data-client={name}]")
        expect(lane.locator(".at")).to_contain_text(line)
        for part in (lane.locator("[data-move]").first, lane.locator(".at")):
            found = part.bounding_box()
            assert found is not None
            assert found["y"] + found["height"] <= 800
            assert found["x"] + 100 <= 1280


@pytest.mark.browser
@pytest.mark.long
@pytest.mark.django_db(transaction=True)
def test_visitor_breaks_a_lock_by_keyboard_and_sees_it_fixed(open_page):
    page = open_page("/locks/setnx-expire/crash/")
    shown = page.locator("[data-lab]")
    verdict = page.locator("[data-verdict]")
    expect(shown).to_have_attribute("data-shown", "broken/")
    page.keyboard.press("a")
    expect(page.locator("[data-client=A] .command")).to_have_text("EXPIRE stock 10")
    page.keyboard.press("u")
    expect(page.locator("[data-client=A] .command")).to_have_text("SETNX stock 1")
    page.locator("[data-move=A]").focus()
    page.keyboard.press("Enter")
    page.get_by_role("button", name="Kill A").click()
    expect(shown).to_have_attribute("data-shown", "broken/A.A!")
    # A link to a position: the rest of B's vain tries, and the visitor of the next day.
    page.goto(page.url + ".B*16.Visitor")
    expect(verdict).to_contain_text("Broken: nobody can ever enter")
    expect(verdict).to_contain_text("You broke it.")
    expect(page.locator("[data-why]")).to_have_attribute("open", "")
    expect(page.get_by_role("link", name="Next: 2. SETNX, then EXPIRE")).to_be_visible()
    page.get_by_role("button", name="The fixed code").click()
    for moves in ("A", "A.A!", "A.A!.B*4", "A.A!.B*4.Visitor*3"):
        page.keyboard.press("n")
        expect(shown).to_have_attribute("data-shown", f"mended/{moves}")
    expect(verdict).to_contain_text("the failure did not occur")

    page.set_viewport_size({"width": 390, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    page.get_by_role("button", name="Search it for a failure").click()
    result = page.locator("[data-result]")
    expect(result).to_contain_text("✗ nobody can ever enter")

    page.goto(page.url.partition("/locks/")[0] + "/locks/")
    expect(page.locator("[data-progress]")).to_have_text("1 of 32 broken")
    page.get_by_role("button", name="中文").click()
    expect(page.locator("h1")).to_have_text("锁实验室")
