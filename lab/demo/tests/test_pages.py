"""The demo's own pages, and its catalogue: complete, and the same however often it is filled in."""

from __future__ import annotations

import json
import re
from datetime import timedelta
from io import StringIO
from itertools import chain
from pathlib import Path

import pytest
import urllib3
from django.contrib.auth import authenticate
from django.contrib.staticfiles import finders
from django.core.cache import cache
from django.core.management import call_command
from django.test import Client
from django.urls import resolve, reverse

from inventory.audit import audit
from lab.demo import pages, show
from lab.demo.data import CATALOGUE, LOGINS, create_logins
from shop.accounts.models import User
from shop.background.follow_up import follow_up
from shop.catalogue.models import Product, Sale
from shop.operating import headers
from shop.orders.models import Order
from shop.pages import sales
from shop.tests.catalogue import a_buyer, a_sale, an_order
from shop.tests.test_messages import INNER

pytestmark = pytest.mark.django_db(transaction=True)

ELSEWHERE = {"locust": "http://127.0.0.1:8089", "provider": "http://127.0.0.1:8090"}
"""Scenes that other processes serve."""


@pytest.fixture(autouse=True)
def _addresses(settings, monkeypatch: pytest.MonkeyPatch, tmp_path) -> None:
    settings.LOCUST_URL, settings.PSP_URL = ELSEWHERE["locust"], ELSEWHERE["provider"]
    settings.ROOM_URL = "http://127.0.0.1:8091"
    monkeypatch.setattr(pages, "SITE", tmp_path)


def links(text: str) -> dict[str, str]:
    """Return where each scene on the page leads to."""
    cards = re.findall(r'data-scene="(\w+)".*?</article>', text, re.DOTALL)
    found = re.findall(r'data-scene="(\w+)".*?<h3><a href="([^"]+)"', text, re.DOTALL)
    assert len(cards) == len(found)
    return dict(found)


def test_stage_shows_every_scene_with_its_picture(client: Client):
    found = links(client.get("/stage/").content.decode())
    assert found.items() >= ELSEWHERE.items()
    for picture, url in found.items():
        assert finders.find(f"lab/stage/{picture}.jpg"), picture
        assert picture in ELSEWHERE or resolve(url), url


def test_load_tests_sales_are_on_the_stage_and_not_in_the_shop(client: Client):
    for _ in range(pages.MAX_UNLISTED + 1):
        sale = a_sale(listed=False)
    cache.clear()
    stage, shop = client.get("/stage/").text, client.get("/").text
    assert stage.count('href="/sales/') == pages.MAX_UNLISTED
    assert f'href="/sales/{sale.pk}/"' in stage
    assert 'href="/sales/' not in shop


def test_stage_names_accounts_that_may_sign_in(client: Client):
    create_logins()
    text = client.get("/stage/").content.decode()
    for login in LOGINS:
        assert login.username in text
        assert login.password in text
        user = authenticate(username=login.username, password=login.password)
        assert user is not None
        assert user.is_superuser == (login.role == "admin")


def signed_in(client: Client) -> str:
    return str(client.get("/stage/").wsgi_request.user.get_username())


def test_stage_signs_in_as_an_account_and_goes_on():
    create_logins()
    client = Client()
    for who in ("admin", "buyer"):
        answer = client.post("/stage/sign-in/", {"who": who, "next": "/room/"})
        assert (answer["Location"], signed_in(client)) == ("/room/", who)


def test_stage_signs_in_as_nobody_else_and_leads_nowhere_else():
    create_logins()
    User.objects.create_superuser("owner", password="demo-admin")
    client = Client()
    assert client.post("/stage/sign-in/", {"who": "owner", "next": "/"}).status_code == 404
    answer = client.post("/stage/sign-in/", {"who": "buyer", "next": "https://elsewhere.example/"})
    assert answer["Location"] == "/stage/"
    assert "data-whom" not in client.get("/stage/?next=//elsewhere.example/").text
    admin = User.objects.get(username="admin")
    admin.set_password("another-one")
    admin.save()
    answer = client.post("/stage/sign-in/", {"who": "admin", "next": "/room/"})
    assert (answer["Location"], signed_in(client)) == ("/sign-in/?next=/room/", "buyer")


def test_steps_of_the_show_are_pages_that_their_person_may_open():
    seed()
    create_logins()
    client = Client()
    for step in show.show_steps():
        if step.who is None:
            continue
        client.post("/stage/sign-in/", {"who": step.who.username, "next": step.url})
        assert client.get(step.url).status_code == 200, step.url


def test_show_starts_again_with_seeded_sales_and_an_empty_room(monkeypatch):
    seed()
    create_logins()
    phone = offer("classic-phone").sale
    left = a_sale(listed=True)
    called = []

    def answer_ok(method: str, url: str, **more: object) -> urllib3.HTTPResponse:
        called.append(url)
        return urllib3.HTTPResponse(b"{}", status=200)

    monkeypatch.setattr(show.urllib3, "request", answer_ok)
    client = Client()
    assert client.post("/stage/again/")["Location"] == "/stage/"
    assert called == ["http://127.0.0.1:8091/actions/again"]
    listed = Sale.objects.filter(listed=True)
    assert sorted(listed.values_list("product__slug", flat=True)) == sorted(
        entry.slug for entry in CATALOGUE
    )
    assert not listed.filter(pk__in=[phone.pk, left.pk]).exists()
    assert offer("classic-phone").sale.item.available == 10


def test_show_that_cannot_start_again_says_why(monkeypatch):
    seed()
    create_logins()

    def refuse(*args: object, **more: object) -> urllib3.HTTPResponse:
        return urllib3.HTTPResponse(b'{"detail": "Redis does not come back"}', status=409)

    monkeypatch.setattr(show.urllib3, "request", refuse)
    client = Client()
    client.post("/stage/again/")
    assert "Redis does not come back" in client.get("/stage/").text
    assert Sale.objects.filter(listed=True).count() == len(CATALOGUE)


def test_stage_says_why_a_part_does_not_run(client: Client, settings, monkeypatch, tmp_path):
    monkeypatch.setattr(pages, "SITE", tmp_path / "not built")
    text = client.get("/stage/").content.decode()
    assert "<h3>Documentation</h3>" in text
    assert "make site" in text


@pytest.mark.parametrize("path", ["/", "/cart/", "/sign-in/", "/api/docs", "/locks/"])
def test_pages_lead_to_the_stage(client: Client, path: str):
    assert f'href="{reverse("stage")}"' in client.get(path).content.decode()


def test_buyers_and_staff_see_an_orders_mails(admin_client: Client) -> None:
    order = an_order(a_sale())
    follow_up()
    own, other = Client(), Client()
    own.force_login(order.buyer)
    other.force_login(a_buyer())
    paths = [f"/orders/{order.pk}/mails/", f"/orders/{order.pk}/mails/confirmation/"]
    for page in paths:
        assert [client.get(page).status_code for client in (own, admin_client, other)] == [
            200,
            200,
            404,
        ]
    assert paths[0] in own.get(f"/orders/{order.pk}/").content.decode()
    assert own.get(f"/orders/{order.pk}/mails/paid/").status_code == 404, "there is none yet"
    sent = own.get(paths[1]).headers
    assert sent[headers.POLICY] == pages.MAIL_POLICY, "it may load nothing"
    assert sent["X-Frame-Options"] == "SAMEORIGIN", "the shop frames it"


@pytest.fixture
def built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "locks").mkdir()
    (tmp_path / "index.html").write_text("the start")
    (tmp_path / "locks" / "index.html").write_text("the course")
    monkeypatch.setattr(pages, "SITE", tmp_path)
    return tmp_path


def content(path: str) -> str:
    answer = Client().get(path)
    assert answer.status_code == 200
    assert "script-src" not in answer.headers["Content-Security-Policy"]
    assert answer.headers["Content-Security-Policy"].startswith("default-src 'self'; ")
    return answer.getvalue().decode()


def test_folders_are_their_pages(built):
    assert content("/docs/site/") == "the start"
    assert content("/docs/site/locks/") == "the course"
    assert Client().get("/docs/site/locks").headers["Location"] == "/docs/site/locks/"


def test_site_serves_only_its_own_files(built, monkeypatch):
    (built.parent / "secret.txt").write_text("a secret")
    for path in ("no-such-page/", "../secret.txt", "%2e%2e/secret.txt"):
        assert Client().get(f"/docs/site/{path}").status_code == 404
    monkeypatch.setattr(pages, "SITE", built / "not built")
    assert Client().get("/docs/site/").status_code == 404


def seed():
    out = StringIO()
    call_command("seed", "--json", stdout=out)
    return json.loads(out.getvalue())


def offer(slug):
    [found] = sales.of([Sale.objects.filter(product__slug=slug).latest("starts_at").pk])
    return found


def test_catalogue_has_a_sale_in_every_state():
    seed()
    statuses = {product.slug: offer(product.slug).status for product in Product.objects.all()}
    assert statuses == {
        "classic-phone": "open",
        "headphones": "open",
        "lamp": "open",
        "watch": "not_started",
        "espresso": "sold_out",
        "travel-mug": "ended",
    }


@pytest.mark.parametrize("entry", CATALOGUE, ids=lambda entry: entry.slug)
def test_catalogue_products_do_not_mention_how_they_are_sold(entry):
    # The description stays the same while the sale opens, sells out and ends.
    moments = re.compile(r"opens?\b|minutes|moments|yesterday|ended|sold out|开抢|售罄|昨日|结束")
    for text in chain.from_iterable(entry.texts.values()):
        assert not INNER.search(text)
        assert not moments.search(text)


def test_catalogue_has_the_classic_sale_of_ten_phones():
    seed()
    phone = offer("classic-phone")
    assert (phone.sale.product.list_price, phone.sale.price) == (199_900, 99_900)
    assert (phone.sale.item.available, phone.sale.item.total, phone.sale.limit) == (10, 10, 1)


def test_filling_in_twice_changes_nothing_and_the_books_balance():
    first = seed()
    sold = Order.objects.count()
    assert seed() == first
    assert (Sale.objects.count(), Order.objects.count()) == (len(first["sales"]), sold)
    assert audit().balanced


def test_front_page_gets_a_next_sale_when_one_has_opened():
    seed()
    opened = offer("watch").sale
    Sale.objects.filter(pk=opened.pk).update(starts_at=opened.starts_at - timedelta(hours=1))
    seed()
    again = offer("watch")
    assert again.sale.pk != opened.pk
    assert again.status == "not_started"
    assert again.sale.item.available == 50
    assert Sale.objects.filter(product__slug="watch").count() == 2


def test_front_page_drops_a_sale_that_has_a_successor():
    seed()
    Sale.objects.filter(product__slug="watch").update(
        starts_at="2020-01-01T00:00Z", ends_at="2020-01-02T00:00Z"
    )
    seed()
    assert Sale.objects.filter(product__slug="watch", listed=True).count() == 1


def test_sale_that_is_over_is_opened_anew():
    seed()
    Sale.objects.filter(product__slug="classic-phone").update(
        starts_at="2020-01-01T00:00Z", ends_at="2020-01-02T00:00Z"
    )
    seed()
    assert offer("classic-phone").status == "open"
