"""Draws from the first entry to the last winner, over the API."""

from __future__ import annotations

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.core.exceptions import ValidationError
from django.db import connection
from django.db.models.functions import Now

from inventory import services
from shop import orders
from shop.catalogue.models import Sale
from shop.conftest import Buyer
from shop.draws import drawing, entering, verify
from shop.draws.drawing import advance, announce, enter_value
from shop.draws.models import Draw, Entry, Place
from shop.draws.tests.catalogue import a_draw, buyers, end, enter_all, save_public_file
from shop.orders import open_orders
from shop.orders.models import Order
from shop.refusals import Refusal
from shop.tests.openapi import refused

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def draw() -> Draw:
    """An open draw for two units."""
    return a_draw()


def winners(draw: Draw) -> list[str]:
    """Names of the buyers with an order that holds a unit, by place."""
    live = (Order.Status.AWAITING_PAYMENT, Order.Status.PAID)
    held = Place.objects.filter(draw=draw, order__status__in=live).order_by("place")
    return list(held.values_list("entry__buyer__username", flat=True))


def test_entry_is_answered_with_a_receipt_once(draw: Draw, ann: Buyer, bob: Buyer) -> None:
    first = ann.post(f"sales/{draw.pk}/entries")
    again = ann.post(f"sales/{draw.pk}/entries")
    other = bob.post(f"sales/{draw.pk}/entries")

    assert (first.status_code, again.status_code, other.status_code) == (201, 200, 201)
    assert again.json() == first.json() == ann.get(f"sales/{draw.pk}/entries/mine").json()
    assert [answer.json()["number"] for answer in (first, other)] == [1, 2]
    start = verify.first_hash(bytes(draw.commitment), "")
    mark = verify.mark_of(bytes.fromhex(first.json()["secret"]), draw.pk, ann.user.pk)
    assert first.json()["hash"] == verify.after_entry(start, 1, mark).hex()
    draw.sale.item.refresh_from_db()
    assert draw.sale.item.available == 2


def test_entry_outside_the_window_is_refused(ann: Buyer, sale: Sale) -> None:
    coming = a_draw(starts_in=timedelta(hours=1))
    over = a_draw()
    end(over)

    refused(ann.post(f"sales/{coming.pk}/entries"), 403, "not_started")
    refused(ann.post(f"sales/{over.pk}/entries"), 410, "ended")
    refused(ann.post(f"sales/{sale.pk}/entries"), 404, "not_found")
    refused(ann.get(f"sales/{over.pk}/entries/mine"), 404, "not_found")
    refused(ann.call("DELETE", f"sales/{over.pk}/entries"), 404, "not_found")
    refused(ann.call("PUT", f"sales/{over.pk}/entries"), 405, "method_not_allowed")
    assert not Entry.objects.exists()


def test_entry_in_a_paused_draw_is_refused(draw: Draw, ann: Buyer) -> None:
    Sale.objects.filter(pk=draw.pk).update(paused=True)

    refused(ann.post(f"sales/{draw.pk}/entries"), 403, "paused")


def test_address_enters_once(ann: Buyer, bob: Buyer) -> None:
    draw = a_draw(per_address=True)
    path = f"sales/{draw.pk}/entries"

    refused(ann.post(path), 422, "invalid_request")
    refused(ann.call("POST", path, {"address": " ,-"}), 422, "invalid_request")
    assert ann.call("POST", path, {"address": "1 High Street, Town"}).status_code == 201
    refused(bob.call("POST", path, {"address": "1 HIGH STREET  town"}), 409, "limit_reached")
    refused(ann.call("POST", path, {"address": "2 High Street"}), 409, "limit_reached")
    assert ann.call("DELETE", path).status_code == 204
    assert bob.call("POST", path, {"address": "1 HIGH STREET  town"}).status_code == 201


def test_withdrawal_leaves_earlier_receipts_as_they_are(
    draw: Draw, ann: Buyer, bob: Buyer, tmp_path: Path
) -> None:
    path = f"sales/{draw.pk}/entries"
    receipts = [each.post(path).json() for each in (ann, bob)]

    answers = [ann.call("DELETE", path) for _ in range(2)]
    back = ann.post(path)

    assert [answer.status_code for answer in answers] == [204, 204]
    assert not answers[0].content
    assert (back.status_code, back.json()["number"]) == (201, 4)
    end(draw)
    advance()
    with save_public_file(draw, tmp_path).open() as lines:
        checked = verify.Checked(lines)
    for receipt in (*receipts, back.json()):
        checked.check_receipt(receipt)
    assert checked.entered == [2, 4]
    refused(bob.call("DELETE", path), 410, "ended")


def test_buyer_cannot_fill_the_list_with_withdrawals(draw: Draw, ann: Buyer) -> None:
    path = f"sales/{draw.pk}/entries"
    for _ in range(entering.MAX_ENTRIES):
        assert ann.post(path).status_code == 201
        ann.call("DELETE", path)

    refused(ann.post(path), 409, "limit_reached")


def test_purchase_in_a_draw_is_for_winners(draw: Draw, ann: Buyer, bob: Buyer, sale: Sale) -> None:
    enter_all(draw, [ann])
    refused(ann.buy(draw.sale), 409, "draw_only")
    end(draw)
    advance()

    won = ann.buy(draw.sale)

    assert (won.status_code, won.json()["status"]) == (200, "awaiting_payment")
    refused(ann.buy(draw.sale, 2), 409, "limit_reached")
    refused(bob.buy(draw.sale), 409, "draw_only")
    lines = {"lines": [{"sale": each.pk, "quantity": 1} for each in (draw.sale, sale)]}
    key = "0b7e4f1c-3a57-4d0e-9f0a-0b9a6f1f2c3d"
    refused(bob.call("POST", "orders", lines, idempotency_key=key), 409, "draw_only")
    paid = ann.post(f"orders/{won.json()['id']}/payment")
    assert paid.json()["status"] == "paid"


def test_purchase_that_overtakes_the_cache_is_declined(sale: Sale, ann: Buyer) -> None:
    """A web process may not know yet that the sale has become a draw."""
    ann.order(sale)
    Sale.objects.filter(pk=sale.pk).update(kind=Sale.Kind.DRAW)

    refused(ann.buy(sale), 409, "draw_only")


def test_draw_is_announced_before_its_sale_begins(sale_of: Callable[..., Sale]) -> None:
    coming = sale_of(starts_in=timedelta(minutes=5))

    announce(coming.pk)

    for sale in (coming, sale_of()):
        with pytest.raises(ValidationError):
            announce(sale.pk)
    coming.refresh_from_db()
    assert coming.kind == Sale.Kind.DRAW


def test_draw_publishes_each_part_in_its_time(ann: Buyer) -> None:
    draw = a_draw(source="lottery of Sunday")

    def shown() -> Any:
        return ann.get(f"sales/{draw.pk}/draw").json()

    enter_all(draw, [ann])
    advance()
    assert (shown()["status"], shown()["seed"], shown()["last_hash"]) == ("open", None, None)
    assert not enter_value(draw.pk, "4 8 15")
    end(draw)
    assert shown()["status"] == "closed"
    advance()
    draw_now = shown()
    assert draw_now["status"] == "awaiting_value"
    assert verify.commitment_to(bytes.fromhex(draw_now["seed"])).hex() == draw_now["commitment"]
    assert enter_value(draw.pk, " 4 8 15 ")
    assert not enter_value(draw.pk, "16 23 42")
    advance()
    assert (shown()["status"], shown()["public_value"], shown()["offered"]) == (
        "drawn",
        "4 8 15",
        1,
    )


def test_draw_without_its_seed_has_failed(draw: Draw, ann: Buyer, settings: Any) -> None:
    known, settings.SECRET_KEY = settings.SECRET_KEY, "another"
    enter_all(draw, [ann])
    end(draw)
    advance()
    ago = Now() - timedelta(hours=2)
    Sale.objects.filter(pk=draw.pk).update(starts_at=ago, ends_at=ago + timedelta(minutes=1))
    Draw.objects.filter(pk=draw.pk).update(closed=ago + timedelta(minutes=1))

    assert ann.get(f"sales/{draw.pk}/draw").json()["status"] == "failed"
    settings.SECRET_KEY = known  # a seed that is found again comes too late
    advance()
    assert ann.get(f"sales/{draw.pk}/draw").json()["status"] == "failed"
    assert not Order.objects.exists()


def test_seed_is_opened_with_an_older_secret_key(draw: Draw, settings: Any) -> None:
    settings.SECRET_KEY_FALLBACKS = [settings.SECRET_KEY]
    settings.SECRET_KEY = "another"
    end(draw)
    advance()

    draw.refresh_from_db()
    assert draw.places == 0


def test_winners_follow_the_public_order(draw: Draw, tmp_path: Path) -> None:
    entrants = buyers(7)
    enter_all(draw, entrants)
    end(draw)
    advance()

    with save_public_file(draw, tmp_path).open() as lines:
        order = verify.Checked(lines).order()
    named = [entrants[number - 1].user.username for number in order]
    places = Place.objects.filter(draw=draw).order_by("place").values_list("entry__number")
    assert [number for (number,) in places] == order
    assert winners(draw) == named[:2]
    first = entrants[order[0] - 1].get(f"sales/{draw.pk}/entries/mine").json()
    assert first["place"] == 1
    assert Order.objects.get(pk=first["order"]).buyer_id == first["buyer"]
    # The units of winners who decline or do not pay go to the next ones.
    orders.cancel(Order.objects.get(pk=first["order"]))
    advance()
    assert winners(draw) == named[1:3]
    connection.cursor().execute("UPDATE inventory_reservation SET deadline = now()")
    orders.expire()
    advance()
    assert winners(draw) == named[3:5]
    services.restock(draw.sale.item_id, 10)
    advance()
    advance()
    assert winners(draw) == named[3:7]
    draw.sale.item.refresh_from_db()
    assert draw.sale.item.available == 8


def test_steps_that_run_at_once_change_nothing_twice(draw: Draw) -> None:
    enter_all(draw, buyers(5))
    end(draw)

    def run() -> None:
        try:
            advance()
        finally:
            connection.close()

    with ThreadPoolExecutor(4) as pool:
        for done in [pool.submit(run) for _ in range(4)]:
            done.result()
    advance()

    assert Place.objects.filter(draw=draw).count() == 5
    assert len(winners(draw)) == 2
    assert Order.objects.count() == 2


def test_step_goes_on_after_each_crash(draw: Draw, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each step in a run of its own, and the offer fails after its orders were opened."""
    enter_all(draw, buyers(5))
    end(draw)

    class Killed(BaseException):
        pass

    def crash(entries: Any, granted: Any) -> Any:
        open_orders(granted, won=True)
        raise Killed

    for step in (drawing.close, drawing.reveal, drawing.place):
        draw.refresh_from_db()
        assert step(draw)
    with monkeypatch.context() as patched:
        patched.setattr(drawing, "open_for_winners", crash)
        with pytest.raises(Killed):
            advance()
    assert not Order.objects.exists()
    advance()
    assert len(winners(draw)) == 2
    assert advance() == 0


def test_entries_at_once_form_one_chain(draw: Draw, tmp_path: Path) -> None:
    """From several threads, with repeats and withdrawals among them."""
    entrants = buyers(40)
    path = f"sales/{draw.pk}/entries"

    def enter(position: int) -> list[Any]:
        buyer = entrants[position % len(entrants)]
        try:
            if position % 7 == 3:
                buyer.call("DELETE", path)
            return [buyer.post(path)]
        finally:
            connection.close()

    with ThreadPoolExecutor(8) as pool:
        answers = [answer for found in pool.map(enter, range(120)) for answer in found]
    end(draw)
    advance()

    assert {answer.status_code for answer in answers} == {200, 201}
    with save_public_file(draw, tmp_path).open() as lines:
        checked = verify.Checked(lines)
    for answer in answers:
        checked.check_receipt(answer.json())
    assert len(checked.entered) == len(entrants)


def test_entry_that_waits_over_the_end_is_refused(draw: Draw, ann: Buyer) -> None:
    """The window is over when the lines are written, though not when the request came."""
    wish = entering.WishTicket(entering.Wish(draw.pk, ann.user.pk))
    look = entering._look

    def elsewhere() -> None:
        end(draw)
        connection.close()

    def look_and_wait(*arguments: Any, **named: Any) -> Any:
        found = look(*arguments, **named)
        with ThreadPoolExecutor(1) as pool:
            pool.submit(elsewhere).result()
        return found

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(entering, "_look", look_and_wait)
        entering._write_or_split(draw.pk, [wish])

    assert isinstance(wish.answer, Refusal)
    assert wish.answer.code == "ended"
    assert not Entry.objects.exists()


def test_lines_of_two_processes_form_one_chain(draw: Draw, ann: Buyer, bob: Buyer) -> None:
    """Another process writes between the look and the write, as if there were no lock."""
    mine, other = (entering.WishTicket(entering.Wish(draw.pk, each.user.pk)) for each in (ann, bob))
    look, looks = entering._look, []

    def elsewhere() -> None:
        entering._write(draw.pk, [other], locked=False)
        connection.close()

    def look_and_be_overtaken(*arguments: Any, **named: Any) -> Any:
        found = look(*arguments, **named)
        looks.append(found)
        if len(looks) == 1:
            with ThreadPoolExecutor(1) as pool:
                pool.submit(elsewhere).result()
        return found

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(entering, "_look", look_and_be_overtaken)
        entering._write_or_split(draw.pk, [mine])

    numbers = [getattr(ticket.answer, "number", None) for ticket in (other, mine)]
    assert numbers == [1, 2]
    draw.refresh_from_db()
    assert (draw.lines, bytes(draw.head)) == (2, getattr(mine.answer, "hash", None))


def test_entry_of_a_deleted_buyer_fails_alone(draw: Draw, ann: Buyer, bob: Buyer) -> None:
    wishes = [entering.Wish(draw.pk, buyer) for buyer in (ann.user.pk, 0, bob.user.pk)]
    tickets = [entering.WishTicket(wish) for wish in wishes]

    entering._write_or_split(draw.pk, tickets)

    assert [getattr(ticket.answer, "number", None) for ticket in tickets] == [1, None, 2]
    ghost = Buyer("ghost")
    ghost.user.delete()
    refused(ghost.post(f"sales/{draw.pk}/entries"), 401, "unauthorized")


def test_file_has_only_its_header_until_the_close(draw: Draw, ann: Buyer, tmp_path: Path) -> None:
    enter_all(draw, [ann])

    [line] = save_public_file(draw, tmp_path).read_text().splitlines()

    assert json.loads(line)["seed"] is None
    assert verify.main([str(tmp_path / "draw.jsonl")]) == 2
