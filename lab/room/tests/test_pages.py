"""The pages of the room and of the duel: who may see them, what they may load, how much it is."""

import json
import re
from pathlib import Path

import pytest
from django.contrib.staticfiles import finders
from django.test import Client

import lab
from lab.room import tokens
from lab.room.texts import EVENTS, EXPECTED, FAULTS, LACKS
from loadtest.faults import FAULTS as KNOWN_FAULTS
from loadtest.replay import SCRIPTS
from shop.accounts.models import User
from shop.operating.headers import PAGES

pytestmark = pytest.mark.django_db

ROOM_URL = "http://127.0.0.1:8792"
PATHS = ("/room/", "/duel/", "/room/replay/", "/room/token")
MOST = 150_000
"""Bytes of a first visit."""


@pytest.fixture(autouse=True)
def process(settings):
    settings.ROOM_URL = ROOM_URL


def client_of(**user: object) -> Client:
    client = Client()
    client.force_login(User.objects.create(username="somebody", password="!", **user))
    return client


@pytest.fixture
def staff() -> Client:
    return client_of(is_staff=True)


@pytest.mark.parametrize("path", PATHS)
def test_only_staff_of_a_demo_with_a_room_find_the_pages(path, settings):
    anonymous = Client().get(path)
    assert (anonymous.status_code, anonymous["Location"]) == (302, f"/sign-in/?next={path}")
    client = client_of()
    assert client.get(path).status_code == 404
    User.objects.update(is_staff=True)
    assert client.get(path).status_code == 200
    assert client.post(path).status_code in {403, 405}
    settings.ROOM_URL = ""
    assert client.get(path).status_code == 404
    assert Client().get(path).status_code == 404


def test_a_page_may_ask_the_rooms_process_and_nothing_else(staff):
    for path in ("/room/", "/duel/", "/room/replay/"):
        answer = staff.get(path)
        assert answer["Content-Security-Policy"] == f"{PAGES}; connect-src 'self' {ROOM_URL}"
        page = answer.content.decode()
        assert not re.search(r"\son\w+=|\sstyle=|javascript:", page)
        scripts = re.findall(r"<script([^>]*)>", page)
        assert all("src=" in each or "application/json" in each for each in scripts)
        assert ROOM_URL in page
    assert ROOM_URL not in staff.get("/")["Content-Security-Policy"]


def test_the_token_of_a_page_is_valid(staff):
    told = staff.get("/room/token").json()
    tokens.verify(told["token"])
    assert told["lifetime"] == tokens.LIFETIME


@pytest.mark.parametrize(
    ("path", "some"),
    [
        ("/room/", {"lab/stream.js", "lab/figures.js", "lab/uplot/uPlot.iife.min.js"}),
        ("/duel/", {"lab/stream.js", *(f"replay/{name}" for name in SCRIPTS)}),
        ("/room/replay/", {"lab/stream.js", *(f"replay/{name}" for name in SCRIPTS)}),
    ],
)
def test_a_first_visit_is_small(path, some, staff):
    page = staff.get(path).content
    files = set(re.findall(r"/static/([^\"]+)", page.decode()))
    # Scripts load others.
    for name in [name for name in files if name.startswith("lab/") and "/uplot" not in name]:
        files |= {f"lab/{other}" for other in imports(name)}
    files |= {f"lab/{other}" for name in list(files) for other in imports(name)}
    sizes = {name: Path(str(finders.find(name))).stat().st_size for name in files}
    assert some <= set(sizes)
    assert len(page) + sum(sizes.values()) <= MOST


def imports(name: str) -> list[str]:
    found = finders.find(name)
    text = Path(str(found)).read_text(encoding="utf-8") if name.endswith(".js") else ""
    return re.findall(r'from "\./([^"]+)"', text)


def test_the_pages_speak_chinese(staff):
    page = staff.get("/room/", headers={"accept-language": "zh-hans"}).content.decode()
    assert "<h1>控制室</h1>" in page
    texts = json.loads(re.findall(r'id="room-texts"[^>]*>(.*?)</script>', page, re.DOTALL)[0])
    assert texts["verdict"]["balanced"] == "账目平衡"


def test_every_event_has_a_sentence_and_every_named_fault_exists():
    folder = Path(lab.__file__).parent / "room"
    source = "".join(path.read_text(encoding="utf-8") for path in folder.glob("*.py"))
    added = set(re.findall(r'_?add\(\s*"(\w+)"', source))
    assert added
    assert added <= set(EVENTS)
    assert set(FAULTS) == set(EXPECTED) == set(KNOWN_FAULTS)
    lacks = {lack for fault in KNOWN_FAULTS.values() for lack in fault.needs}
    assert lacks == set(LACKS)
