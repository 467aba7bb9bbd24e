"""The page of a draw and its check in the browser, and the admin."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.db.models.functions import Now
from django.test import Client
from django.urls import reverse
from playwright.sync_api import Browser, Route, expect

from shop.accounts.models import User
from shop.catalogue.models import Sale
from shop.conftest import Buyer
from shop.draws import verify
from shop.draws.drawing import advance
from shop.draws.models import Draw, Entry
from shop.draws.tests.catalogue import a_draw, buyers, end, enter_all, save_public_file
from shop.mails.rendering import Kind, message
from shop.orders.models import Order
from shop.tests.test_browser import chromium  # noqa: F401  # a fixture

pytestmark = pytest.mark.django_db(transaction=True)


def signed_in(buyer: Buyer) -> Client:
    client = Client()
    client.force_login(buyer.user)
    return client


def test_page_takes_and_withdraws_an_entry(ann: Buyer, tmp_path: Path) -> None:
    draw = a_draw()
    page = reverse("draw", args=[draw.pk])
    client = signed_in(ann)

    assert client.get(reverse("sale", args=[draw.pk])).headers["Location"] == page
    assert b"data-enter" in client.get(page).content
    assert client.post(page).status_code == 302
    assert b"You are in, with number 1" in client.get(page).content
    receipt = client.get(reverse("draw-receipt", args=[draw.pk]))
    end(draw)
    advance()
    (tmp_path / "receipt.json").write_bytes(receipt.content)
    save_public_file(draw, tmp_path)
    assert verify.main([f"{tmp_path}/draw.jsonl", "--receipt", f"{tmp_path}/receipt.json"]) == 0
    assert b"You have won, with place 1" in client.get(page).content
    assert client.post(page, {"withdraw": "on"}).status_code == 410


def test_page_refuses_in_the_visitors_language(ann: Buyer) -> None:
    draw = a_draw(per_address=True)
    client = signed_in(ann)

    answer = client.post(reverse("draw", args=[draw.pk]), headers={"accept-language": "zh-hans"})

    assert answer.status_code == 422
    assert "请填写地址" in answer.content.decode()
    assert client.post(reverse("draw", args=[draw.pk + 1])).status_code == 404
    assert not Entry.objects.exists()


def test_page_withdraws(ann: Buyer) -> None:
    draw = a_draw()
    client = signed_in(ann)
    page = reverse("draw", args=[draw.pk])
    client.post(page)

    client.post(page, {"withdraw": "on"})

    assert b"Your number 1 was withdrawn" in client.get(page).content
    assert Entry.objects.get().withdrawal == 2


def test_page_says_that_a_draw_has_failed(ann: Buyer) -> None:
    draw = a_draw()
    ago = Now() - timedelta(hours=2)
    Sale.objects.filter(pk=draw.pk).update(starts_at=ago, ends_at=ago + timedelta(minutes=1))

    assert b"This draw has failed" in Client().get(reverse("draw", args=[draw.pk])).content


def test_mail_tells_a_winner(ann: Buyer) -> None:
    draw = a_draw()
    enter_all(draw, [ann])
    end(draw)
    advance()

    mail = message(Kind.CONFIRMATION, Order.objects.with_lines().get())

    assert "You have won" in mail.subject
    assert "next in order" in mail.body


def test_admin_announces_a_draw_and_enters_its_value(sale_of: Any, ann: Buyer) -> None:
    client = Client()
    client.force_login(User.objects.create_superuser("operator"))
    coming, begun = sale_of(starts_in=timedelta(hours=1)), sale_of()
    add = reverse("admin:draws_draw_add")

    assert client.post(add, {"sale": begun.pk, "source": ""}).status_code == 200
    assert client.post(add, {"sale": coming.pk, "source": "lottery"}).status_code == 302
    draw = Draw.objects.get()
    change = reverse("admin:draws_draw_change", args=[draw.pk])
    assert bytes(draw.commitment).hex() in client.get(change).content.decode()
    client.post(change, {"public_value": "too early"})
    ago = Now() - timedelta(hours=1)
    Sale.objects.filter(pk=draw.pk).update(starts_at=ago, ends_at=ago + timedelta(minutes=1))
    advance()
    client.post(change, {"public_value": "4 8 15"})
    client.post(change, {"public_value": "16 23 42", "source": "another"})
    draw.refresh_from_db()
    assert (draw.public_value, draw.source) == ("4 8 15", "lottery")
    assert client.get(reverse("admin:draws_draw_changelist")).status_code == 200


def answer_with(body: str) -> Callable[[Route], None]:
    return lambda route: route.fulfill(body=body)


@pytest.fixture
def asynchronous(monkeypatch: pytest.MonkeyPatch) -> None:
    """Playwright's loop runs in this thread, and Django would refuse the tests' own queries."""
    monkeypatch.setenv("DJANGO_ALLOW_ASYNC_UNSAFE", "true")


@pytest.mark.browser
@pytest.mark.long
@pytest.mark.usefixtures("asynchronous")
def test_browser_computes_the_place_and_finds_a_changed_list(
    chromium: Browser,  # noqa: F811
    live_server: Any,
    tmp_path: Path,
) -> None:
    draw = a_draw(source="lottery 文")
    entrants = buyers(30)
    enter_all(draw, entrants)
    entrants[3].call("DELETE", f"sales/{draw.pk}/entries")
    end(draw)
    advance()
    Draw.objects.filter(pk=draw.pk).update(public_value="4 8 15 十六", valued=Now())
    advance()
    path = save_public_file(draw, tmp_path)
    with path.open() as lines:
        place = verify.Checked(lines).order().index(7) + 1
    session = signed_in(entrants[6]).cookies["sessionid"].value
    context = chromium.new_context()
    context.add_cookies([{"name": "sessionid", "value": session, "url": live_server.url}])
    page = context.new_page()
    page.goto(f"{live_server.url}{reverse('draw', args=[draw.pk])}")

    page.locator("[data-check]").click()

    checked = page.locator("[data-checked=agrees]")
    expect(checked).to_contain_text(f"Your number 7 has place {place} of 29")
    for number, line in enumerate(changed := path.read_text().splitlines()):
        if number in (0, 5, 29, 31):
            entry = json.loads(line)
            name = "seed" if number == 0 else "hash"
            entry[name] = entry[name][:-1] + ("0" if entry[name][-1] != "0" else "1")
            body = "\n".join([*changed[:number], json.dumps(entry), *changed[number + 1 :]])
            page.route("**/draw.jsonl", answer_with(body))
            page.locator("[data-check]").click()
            expect(page.locator("[data-checked=contradicts]")).to_be_visible()
            page.unroute("**/draw.jsonl")
            page.reload()
    context.close()
