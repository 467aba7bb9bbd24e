"""The room's pages, and its process as a page meets it: stream, tokens and actions."""

import json
import re
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
import urllib3
from django.contrib.auth.models import Permission
from django.contrib.staticfiles import finders
from django.test import Client

import lab
from inventory.models import Item
from lab.room import server, views
from lab.room.__main__ import origins
from lab.room.permissions import PERMISSIONS
from lab.room.server import RoomServer
from lab.room.texts import TEXTS
from lab.strategies.choice import chosen
from loadtest.fault_needs import DISK
from loadtest.faults import FAULTS as KNOWN_FAULTS
from loadtest.faults.fault import Target
from shop.accounts.models import User
from shop.catalogue.models import Sale
from shop.checkout import buy
from shop.operating.headers import PAGES
from shop.tests.catalogue import a_buyer

pytestmark = pytest.mark.django_db(transaction=True)

SHOP = "http://127.0.0.1:8000"


@pytest.fixture
def room(serve_room, settings) -> Iterator[RoomServer]:
    settings.PUBLIC_URL = SHOP
    with serve_room(SHOP) as found:
        yield found


def address(room: RoomServer, path: str) -> str:
    return f"http://127.0.0.1:{room.server_address[1]}{path}"


@contextmanager
def ask(room: RoomServer, path: str, **headers: str) -> Iterator[HTTPResponse]:
    connection = HTTPConnection("127.0.0.1", room.server_address[1], timeout=30)
    with closing(connection):
        connection.request("GET", path, headers=headers)
        with connection.getresponse() as answer:
            yield answer


def status(room: RoomServer, path: str, **headers: str) -> int:
    with ask(room, path, **headers) as answer:
        return answer.status


def act(room: RoomServer, name: str, authorization: str = "", **values: Any) -> tuple[int, Any]:
    authorization = authorization or f"Bearer {views.issue(1, PERMISSIONS)}"
    answer = urllib3.request(
        "POST",
        address(room, f"/actions/{name}"),
        json=values,
        headers={"Authorization": authorization, "Connection": "close"},
        timeout=30,
    )
    return answer.status, answer.json()


def events(answer: HTTPResponse) -> Iterator[tuple[str, Any]]:
    name = ""
    while line := answer.readline():
        text = line.decode()
        if text.startswith("event: "):
            name = text.removeprefix("event: ").strip()
        elif text.startswith("data: "):
            yield name, json.loads(text.removeprefix("data: "))


def until(stream: Iterator[tuple[str, Any]], holds: Callable[[Any], Any]) -> Any:
    """Return the first frame of which it holds; the end of the stream fails the test."""
    return next(frame for name, frame in stream if name == "frame" and holds(frame))


def test_stream_has_a_commit_with_its_event(room, sale):
    with ask(room, f"/stream?token={views.issue(1, PERMISSIONS)}", Origin=SHOP) as answer:
        assert answer.status == 200
        assert answer.headers["Access-Control-Allow-Origin"] == SHOP
        stream = events(answer)
        name, greeting = next(stream)
        parts = ["duel", "events", "faults", "history", "missing"]
        assert (name, sorted(greeting)) == ("hello", parts)
        until(stream, lambda frame: frame["sale"] and frame["sale"]["id"] == sale.pk)
        buy(sale.pk, a_buyer().pk, uuid4(), 2)
        until(stream, lambda frame: frame["sale"]["reserved"] == 2)
        act(room, "restock", sale=sale.pk, units=5)
        frame = until(stream, lambda frame: frame["events"])
        assert [event["code"] for event in frame["events"]] == ["restocked"]


@pytest.mark.parametrize("token", ["", "x", "1:abc:def"])
def test_stream_report_and_action_need_a_valid_token(token, room, sale):
    for path in ("/stream", "/reports/1/first", "/duel", "/x"):
        assert status(room, f"{path}?token={token}") == 401
    assert act(room, "restock", f"Bearer {token}", sale=sale.pk, units=5)[0] == 401
    assert Item.objects.get(pk=sale.item_id).available == 10
    assert status(room, "/healthz") == 200


def test_action_takes_its_token_only_from_a_header(room, sale):
    token = views.issue(1, PERMISSIONS)
    for header in (token, f"Basic {token}"):
        assert act(room, "restock", header, sale=sale.pk, units=5)[0] == 401
    assert act(room, "restock", sale=sale.pk, units=5)[0] == 200


def room_token(*permissions: str) -> str:
    """Return the token that the page gives to somebody of staff with these permissions."""
    user = User.objects.create(username=uuid4().hex, password="!", is_staff=True)
    for permission in permissions:
        app, codename = permission.split(".")
        user.user_permissions.add(
            Permission.objects.get(content_type__app_label=app, codename=codename)
        )
    client = Client()
    client.force_login(user)
    return str(client.get("/room/token").json()["token"])


def test_room_actions_ask_for_their_own_permission(room, sale):
    looker = f"Bearer {room_token('shop.view_sale')}"
    refused = {name: act(room, name, looker, sale=sale.pk)[0] for name in PERMISSIONS}
    assert refused.pop("watch") == 200
    assert set(refused.values()) == {403}
    stocker = f"Bearer {room_token('inventory.change_item')}"
    assert act(room, "restock", stocker, sale=sale.pk, units=5)[0] == 200
    assert act(room, "pause", stocker, sale=sale.pk, paused=True)[0] == 403
    assert Item.objects.get(pk=sale.item_id).available == 15


def test_duel_file_is_the_last_or_the_shipped_one(room, tmp_path):
    token = views.issue(1, PERMISSIONS)
    with ask(room, f"/duel?token={token}") as answer:
        shipped = json.load(answer)
    naive, combining = shipped["sides"]
    assert (naive["strategy"], naive["outcome"], naive["oversold"] > 0) == ("naive", "fail", True)
    assert (combining["strategy"], combining["outcome"]) == ("combining", "pass")
    assert (combining["orders"], combining["oversold"]) == (shipped["units"], 0)
    for number, text in enumerate(("{}", '{"sides": []}'), start=1):
        folder = tmp_path / "duels" / f"{number:04}"
        folder.mkdir(parents=True)
        (folder / "duel.json").write_text(text)
    (tmp_path / "duels" / "0003").mkdir()  # one that was stopped
    with ask(room, f"/duel?token={token}") as answer:
        assert answer.read() == b'{"sides": []}'


def test_token_expires(room, monkeypatch):
    token = views.issue(1, PERMISSIONS)
    monkeypatch.setattr(views, "LIFETIME", -1)
    assert status(room, f"/stream?token={token}") == 401


def test_token_is_accepted_only_from_the_shops_pages(room):
    token = views.issue(1, PERMISSIONS)
    with ask(room, f"/stream?token={token}", Origin="http://elsewhere.example") as foreign:
        assert foreign.status == 403
        assert "Access-Control-Allow-Origin" not in foreign.headers
    assert origins(SHOP) == {SHOP, "http://localhost:8000"}


def test_viewers_are_limited_in_number(room, monkeypatch):
    monkeypatch.setattr(server, "MAX_VIEWERS", 1)
    with ask(room, f"/stream?token={views.issue(1, PERMISSIONS)}") as first:
        next(events(first))
        assert status(room, f"/stream?token={views.issue(1, PERMISSIONS)}") == 503


def test_sale_buttons_do_what_they_say(room, sale):
    assert act(room, "restock", sale=sale.pk, units=5) == (200, {})
    assert act(room, "pause", sale=sale.pk, paused=True) == (200, {})
    assert act(room, "strategy", sale=sale.pk, strategy="row_lock") == (200, {})
    found = Sale.objects.select_related("item").get(pk=sale.pk)
    assert (found.item.available, found.paused, chosen(sale.pk)) == (15, True, "row_lock")
    assert act(room, "watch", sale=sale.pk) == (200, {})
    assert room.room.chosen == sale.pk


@pytest.mark.parametrize(
    ("name", "values", "status"),
    [
        ("restock", {"sale": 10**9, "units": 1}, 404),
        ("restock", {"units": 0}, 400),
        ("restock", {"units": 1, "more": 1}, 400),
        ("restock", {}, 400),
        ("restock", {"sale": None, "units": 5}, 400),
        ("pause", {}, 400),
        ("pause", {"sale": None, "paused": False}, 400),
        ("strategy", {}, 400),
        ("strategy", {"sale": None, "strategy": "guard"}, 400),
        ("strategy", {"strategy": "none"}, 400),
        ("rush", {"buyers": 5001}, 400),
        ("rush", {"buyers": 5, "mix": "carts"}, 400),
        ("inject", {"fault": "redis-killed"}, 409),  # no demo has said what faults act on
        ("provider", {"behaviour": "wild"}, 400),
        ("duel", {"strategies": ["naive", "none"]}, 400),
        ("unknown", {}, 404),
    ],
)
def test_action_that_is_impossible_changes_nothing(name, values, status, room, sale):
    Sale.objects.update(paused=True)
    before = Sale.objects.values().get(pk=sale.pk), Item.objects.values().get(pk=sale.item_id)
    own = {"sale": sale.pk} if name in {"restock", "pause", "strategy"} else {}
    answered, body = act(room, name, **{**own, **values})
    assert (answered, bool(body["detail"])) == (status, True)
    after = Sale.objects.values().get(pk=sale.pk), Item.objects.values().get(pk=sale.item_id)
    assert (after, chosen(sale.pk)) == (before, "combining")


def test_fault_that_fails_is_reported_and_allows_the_next(room, sale, tmp_path):
    nothing = "redis://127.0.0.1:1/0"
    Target(SHOP, 0, "postgresql://127.0.0.1:1/x", str(tmp_path), nothing, nothing).write(
        tmp_path / "target.json"
    )
    with ask(room, f"/stream?token={views.issue(1, PERMISSIONS)}") as answer:
        stream = events(answer)
        _, greeting = next(stream)
        assert "web-killed" in greeting["faults"]
        missing = {each["fault"]: each for each in greeting["missing"]}
        assert not set(missing) & set(greeting["faults"])
        assert missing["redis-slow"]["command"] == "make demo ARGS=--breakable"
        assert missing["disk-full"] == {
            "fault": "disk-full",
            "lack": DISK,
            "command": 'make prove ARGS="--fault disk-full"',
        }
        assert act(room, "inject", fault="web-killed", sale=sale.pk) == (200, {})
        until(stream, lambda frame: "fault_failed" in [event["code"] for event in frame["events"]])
        until(stream, lambda frame: "fault" not in frame)
    assert act(room, "inject", fault="web-killed", sale=sale.pk) == (200, {})


ROOM_URL = "http://127.0.0.1:8792"
PATHS = ("/room/", "/duel/", "/room/token")
MOST = 150_000
"""Bytes of a first visit."""


@pytest.fixture(autouse=True)
def process(settings):
    """Let the pages name a room's process; a test with a `room` has its own."""
    settings.ROOM_URL = ROOM_URL


def client_of(**user: object) -> Client:
    client = Client()
    client.force_login(User.objects.create(username="somebody", password="!", **user))
    return client


@pytest.fixture
def staff() -> Client:
    return client_of(is_staff=True)


@pytest.mark.parametrize("path", PATHS)
def test_room_pages_lead_whoever_is_not_staff_to_the_stage(path, settings):
    anonymous = Client().get(path)
    assert (anonymous.status_code, anonymous["Location"]) == (302, f"/stage/?next={path}")
    client = client_of()
    assert client.get(path)["Location"] == f"/stage/?next={path}"
    User.objects.update(is_staff=True)
    assert client.get(path).status_code == 200
    token = client.get("/room/token").json()
    views.verify(token["token"])
    assert token["lifetime"] == views.LIFETIME
    assert client.post(path).status_code in {403, 405}
    settings.ROOM_URL = ""
    assert client.get(path).status_code == 404
    assert Client().get(path).status_code == 404


def test_page_may_connect_only_to_the_rooms_process(staff):
    for path in ("/room/", "/duel/"):
        answer = staff.get(path)
        assert answer["Content-Security-Policy"] == f"{PAGES}; connect-src 'self' {ROOM_URL}"
        page = answer.content.decode()
        assert not re.search(r"\son\w+=|\sstyle=|javascript:", page)
        scripts = re.findall(r"<script([^>]*)>", page)
        assert all("src=" in script or "application/json" in script for script in scripts)
        assert ROOM_URL in page
    assert ROOM_URL not in staff.get("/")["Content-Security-Policy"]


def test_first_visit_is_small(staff):
    for path in ("/room/", "/duel/"):
        page = staff.get(path).content
        files = set(re.findall(r"/static/([^\"]+)", page.decode()))
        # Scripts load others.
        files |= {f"lab/{other.name}" for other in Path(str(finders.find("lab"))).glob("*.js")}
        assert {"lab/stream.js", "lab/room.css"} <= files
        sizes = [Path(str(finders.find(name))).stat().st_size for name in files]
        assert len(page) + sum(sizes) <= MOST


def test_pages_speak_chinese(staff):
    page = staff.get("/room/", headers={"accept-language": "zh-hans"}).content.decode()
    assert "<h1>控制室</h1>" in page
    texts = json.loads(re.findall(r'id="room-texts"[^>]*>(.*?)</script>', page, re.DOTALL)[0])
    assert texts["verdict"]["balanced"] == "账目平衡"


def test_events_have_a_sentence_and_named_faults_exist():
    folder = Path(lab.__file__).parent / "room"
    source = "".join(path.read_text(encoding="utf-8") for path in folder.glob("*.py"))
    added = set(re.findall(r'_?add\(\s*"(\w+)"', source))
    assert added
    assert added <= set(TEXTS["events"])
    assert set(TEXTS["faults"]) == set(TEXTS["expected"]) == set(KNOWN_FAULTS)
    lacks = {lack for fault in KNOWN_FAULTS.values() for lack in fault.needs}
    assert lacks == set(TEXTS["lacks"])
