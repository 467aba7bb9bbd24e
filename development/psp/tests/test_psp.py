"""The payment provider moves money once, despite repeats, cut connections and kills."""

import json
import socket
import sqlite3
import threading
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from itertools import chain, repeat
from urllib.request import urlopen
from uuid import uuid4

import pytest

from inventory.tests.helpers import at_once
from shop import payments
from shop.audit import examine
from shop.orders.models import Order
from shop.payments import http_provider
from shop.payments.http_provider import HttpProvider
from shop.payments.models import Payment, Refund
from shop.payments.provider import Intent, PaymentDeclined, PaymentUnknown
from shop.tests.catalogue import a_sale, an_order
from shop.tests.processes import wait_for

pytestmark = pytest.mark.django_db(transaction=True)

TEN = 1000

shop = HttpProvider()


def key() -> str:
    return str(uuid4())


def announced(order: int, amount: int = TEN) -> Intent:
    return shop.create_intent(order=order, amount=amount, currency="CNY", key=key())


def captured(order: int, amount: int = TEN) -> Intent:
    return shop.capture(announced(order, amount).id, key=key())


def test_payment_is_created_captured_found_and_refunded(psp):
    intent = announced(1, 999)
    assert (intent.status, intent.amount) == ("requires_capture", 999)
    assert shop.capture(intent.id, key=key()).status == "captured"
    assert shop.refund(intent.id, amount=400, key=key()).status == "succeeded"
    assert shop.get(intent.id).status == "captured"
    assert psp.ledger(1) == [(1, "capture", 999), (1, "refund", 400)]


@pytest.mark.parametrize(
    "how",
    [{"delay": 10**400}, {"delay": -1}, {"processing": 10**9}, {"lost": 1.5}, {"copies": 10**6}],
    ids=str,
)
def test_misbehaviour_has_bounds_so_that_it_can_be_ended(psp, how):
    with pytest.raises(AssertionError, match="Expected"):
        psp.behave(**how)
    assert json.loads(psp.call("behaviour"))["processing"] == 0


def test_page_shows_payments_and_the_providers_behaviour(psp):
    shop.refund(captured(17).id, amount=400, key=key())
    psp.behave(delay=3)
    with urlopen(psp.url) as answer:
        page = answer.read().decode()
    for shown in ("<td>17</td><td>Captured</td>", "CN¥10.00", "CN¥4.00", "delay 3"):
        assert shown in page
    assert "decline" not in page.split("Behaviour:")[1].split("</p>")[0]


def test_payment_called_thirty_times_is_captured_once(psp):
    create = partial(shop.create_intent, order=2, amount=TEN, currency="CNY", key=key())
    intents = at_once([create] * 30)
    assert len({intent.id for intent in intents}) == 1
    assert psp.sql('SELECT count(*) FROM intent WHERE "order" = 2') == [(1,)]
    keys = [key()] * 15 + [key() for _ in range(15)]
    answers = at_once([partial(shop.capture, intents[0].id, key=each) for each in keys])
    assert {answer.status for answer in answers} == {"captured"}
    assert psp.ledger(2) == [(2, "capture", 1000)]


def test_refunds_at_once_return_no_more_than_was_captured(psp):
    intent = captured(4)
    answers = at_once([lambda: shop.refund(intent.id, amount=400, key=key())] * 30)
    refused = [answer.code for answer in answers if isinstance(answer, PaymentDeclined)]
    assert refused == ["refund_exceeds_capture"] * 28
    assert psp.ledger(4) == [(4, "capture", 1000), *[(4, "refund", 400)] * 2]


def test_lost_answer_is_unknown_until_the_call_is_repeated(psp):
    intent, same = announced(5), key()
    psp.behave(lost=1.0)
    with pytest.raises(PaymentUnknown):
        shop.capture(intent.id, key=same)
    assert psp.ledger(5) == [(5, "capture", 1000)]
    assert shop.capture(intent.id, key=same).status == "captured"
    assert psp.ledger(5) == [(5, "capture", 1000)]


def test_declined_card_stays_declined(psp):
    intent, same = announced(6), key()
    psp.behave(decline=1.0)
    for _ in range(2):
        with pytest.raises(PaymentDeclined, match="card_declined"):
            shop.capture(intent.id, key=same)
        psp.behave()
    with pytest.raises(PaymentDeclined, match="card_declined"):
        shop.capture(intent.id, key=key())
    assert shop.get(intent.id).status == "failed"
    assert psp.ledger(6) == []


def test_capture_and_cancel_at_once_have_one_winner(psp):
    for order in range(100, 120):
        intent = announced(order)
        with ThreadPoolExecutor(2) as threads:
            capture = threads.submit(shop.capture, intent.id, key=key())
            cancel = threads.submit(shop.cancel, intent.id, key=key())
        won = capture.exception() is None
        assert won != (cancel.exception() is None)
        assert len(psp.ledger(order)) == won


def test_capture_in_processing_is_decided_after_a_kill(psp):
    intent = announced(7)
    psp.behave(processing=300)
    assert shop.capture(intent.id, key=key()).status == "processing"
    with pytest.raises(PaymentDeclined, match="intent_processing"):
        shop.cancel(intent.id, key=key())
    psp.kill()
    wait_for(lambda: psp.ledger(7) == [(7, "capture", 1000)])
    assert shop.get(intent.id).status == "captured"


def test_error_of_the_shop_is_unknown_for_the_payment(psp, settings):
    settings.PSP_KEY = "wrong"
    for ask in (lambda: announced(8), lambda: list(shop.ledger())):
        with pytest.raises(PaymentUnknown, match="401"):
            ask()
    settings.PSP_URL = "http://127.0.0.1:1"
    with pytest.raises(PaymentUnknown):
        announced(9)


def test_key_used_for_another_call_is_unknown(psp):
    intent, same = announced(8), key()
    shop.capture(intent.id, key=same)
    with pytest.raises(PaymentUnknown, match="idempotency_key_reused"):
        shop.cancel(intent.id, key=same)
    assert psp.ledger(8) == [(8, "capture", 1000)]


@contextmanager
def answering(settings, pieces: Iterable[bytes]) -> Iterator[None]:
    """Replace the provider by a server that answers one request with these pieces."""

    def answer() -> None:
        connection, _ = server.accept()
        with connection, suppress(OSError):  # the shop has disconnected
            connection.recv(65536)
            for piece in pieces:
                connection.sendall(piece)

    with socket.create_server(("127.0.0.1", 0)) as server:
        settings.PSP_URL = f"http://127.0.0.1:{server.getsockname()[1]}"
        thread = threading.Thread(target=answer)
        thread.start()
        yield
        thread.join(30)
        assert not thread.is_alive()


def in_full(document: object) -> bytes:
    body = json.dumps(document).encode()
    return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)


INTENT = {"id": "pi_1", "order": 1, "amount": 1000, "currency": "CNY", "status": "captured"}


@pytest.mark.parametrize(
    "wrong",
    [
        {"amount": 10.5},
        {"amount": "1000"},
        {"currency": None},
        {"status": "perhaps"},
        {"reference": True},
    ],
    ids=str,
)
def test_answer_that_cannot_be_read_is_unknown(wrong, settings):
    with answering(settings, [in_full({**INTENT, **wrong})]), pytest.raises(PaymentUnknown):
        shop.capture("pi_1", key=key())


def test_members_that_the_shop_does_not_know_are_ignored(settings):
    with answering(settings, [in_full({**INTENT, "object": "payment_intent", "more": [{}]})]):
        assert shop.capture("pi_1", key=key()).amount == 1000


def test_answer_without_end_is_unknown_and_closed(settings, monkeypatch):
    monkeypatch.setattr("shop.payments.http_provider.MAX_SECONDS", 0.2)
    endless = chain([b"HTTP/1.1 200 OK\r\n\r\n"], repeat(b" "))
    with answering(settings, endless), pytest.raises(PaymentUnknown, match="does not end"):
        shop.capture("pi_1", key=key())
    pool = http_provider._client().connection_from_url(settings.PSP_URL).pool
    assert pool is not None
    assert pool.qsize() == http_provider.CONNECTIONS


def test_ledger_refuses_changes_and_impossible_rows(psp):
    """Enforced by the database, whatever the provider's code does."""
    intent = captured(10)
    line = "INSERT INTO ledger (intent, operation, amount) VALUES (?, ?, ?)"
    unpaid = announced(10)
    shop.cancel(unpaid.id, key=key())
    for statement, *values in (
        ("UPDATE ledger SET amount = 1",),
        ("DELETE FROM ledger",),
        (line, intent.id, "capture", 1000),
        (line, announced(10).id, "capture", 999),
        (line, unpaid.id, "capture", 1000),
        (line, intent.id, "refund", 1),
    ):
        with pytest.raises(sqlite3.IntegrityError):
            psp.sql(statement, *values)
    for number in (1, 2):
        psp.sql("INSERT INTO refund VALUES (?, ?, 600, 'pending', 1e10, '')", number, intent.id)
    refund = "INSERT INTO ledger (intent, refund, operation, amount) VALUES (?, ?, 'refund', 600)"
    psp.sql(refund, intent.id, 1)
    with pytest.raises(sqlite3.IntegrityError, match="refunds_within_captures"):
        psp.sql(refund, intent.id, 2)
    assert psp.ledger(10) == [(10, "capture", 1000), (10, "refund", 600)]


def test_audit_finds_money_that_only_one_side_knows(psp):
    order = an_order(a_sale())
    payments.pay(order)
    payment = f"payment {Payment.objects.get().pk} of order {order.pk}"
    Payment.objects.update(state="failed")
    text = " ".join(examine().problems)
    assert f"order {order.pk} is paid and worth 999.00 CNY, but 0.00 CNY was taken" in text
    Payment.objects.update(state="captured")
    Order.objects.update(currency="EUR")
    assert examine().problems == [f"{payment} is in EUR here, and in CNY at the provider"]
    Order.objects.update(currency="CNY")
    psp.forget()
    assert examine().problems == [
        f"{payment} is captured over 999.00 CNY here, and over 0.00 CNY at the provider"
    ]
    other = an_order(a_sale())
    strange = captured(other.pk, other.amount).id
    assert (
        f"the provider took 999.00 CNY for order {other.pk}, "
        f"of which the shop knows no payment ({strange})"
    ) in examine().problems
    report = examine([an_order(a_sale()).lines.get().sale.item_id])
    assert (report.problems, len(report.items)) == ([], 1), "of one sale, its own money"


@pytest.mark.parametrize("end", [b"", b'{"lines": 2}\n'])
def test_ledger_that_breaks_off_is_unknown(end, settings):
    line = {"id": 1, "order": 1, "intent": "pi_1", "operation": "capture"}
    text = json.dumps({**line, "amount": 1000, "currency": "CNY"}).encode()
    answer = b"HTTP/1.1 200 OK\r\n\r\n" + text + b"\n" + end
    with answering(settings, [answer]), pytest.raises(PaymentUnknown, match="broken off after 1"):
        list(HttpProvider().ledger())


def test_webhooks_settle_what_the_provider_decided_late(psp, live_server, sale, ann, bob):
    psp.behave(
        webhook_url=f"{live_server.url}/api/v1/webhooks/psp", processing=100, copies=2, shuffle=200
    )
    order, declined = ann.order(sale), bob.order(sale)
    for act, status in (("payment", "paid"), ("refund", "refunded")):
        assert ann.post(f"orders/{order}/{act}").status_code in {200, 202, 503}
        wait_for(Order.objects.filter(pk=order, status=status).exists)
    wait_for(psp.quiet)
    assert Refund.objects.get(payment__order=order).amount == 99_900
    assert psp.ledger(order, declined) == [(order, "capture", 99900), (order, "refund", 99900)]
