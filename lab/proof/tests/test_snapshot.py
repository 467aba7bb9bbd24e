"""What a proof reads at the end: orders, pending follow-ups, and the mails of each buyer."""

from __future__ import annotations

import json
import smtplib
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from django.contrib.auth.models import Group
from django.core.mail import EmailMessage, get_connection
from django.db import connection, transaction
from msgspec.structs import asdict

from development.ports import next_free, release
from development.processes import Greeter
from lab import environment
from lab.proof import snapshot
from loadtest.checker import snapshot as rows
from loadtest.shops.flash_sale import look_of
from shop import orders
from shop.accounts.models import User
from shop.background.follow_up import follow_up
from shop.identity import identity
from shop.mails import sending
from shop.mails.rendering import Kind
from shop.orders.models import Order
from shop.payments.http_provider import HttpProvider
from shop.payments.models import Payment
from shop.tests.catalogue import a_sale, an_order, mail

pytestmark = pytest.mark.django_db(transaction=True)


def microseconds(column: str) -> int:
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT extract(epoch FROM {column}) FROM shop_order")
        return int(cursor.fetchone()[0] * 1_000_000)


def test_snapshot_shows_terms_times_and_an_orders_events(tmp_path: Path) -> None:
    sale = a_sale(
        price=333, limit=10, hold=timedelta(seconds=3.5), currency="EUR", restock_cancelled=False
    )
    buyer = User.objects.create(username="ann", email="ann@example.com")
    sale.early_group = Group.objects.create(name="members")
    sale.early_starts_at = sale.starts_at - timedelta(seconds=7)
    sale.save()
    sale.early_group.user_set.add(buyer)
    order = an_order(sale, buyer, quantity=5)
    orders.cancel(order, orders.Part(2, uuid4()))
    before = (time.monotonic_ns(), snapshot.clock())
    (tmp_path / "final").write_text("".join(snapshot.lines([sale.pk])))
    after = (time.monotonic_ns(), snapshot.clock())
    header, found = rows.read(tmp_path / "final")
    of = {type(row): row for row in found}

    assert before[0] <= header.taken_at <= after[0]
    assert before[1] <= header.clock <= after[1]
    item, hold = str(sale.item_id), 3_500_000
    more = int(sale.action_hold.total_seconds() * 1_000_000)
    early = of[rows.Sale].early_starts_at  # type: ignore[attr-defined]
    assert of[rows.Sale] == rows.Sale(
        id=str(sale.pk),
        item=item,
        limit=10,
        price=333,
        currency="EUR",
        hold=hold,
        restock_cancelled=False,
        restock_returned=True,
        action_hold=more,
        early_starts_at=early,
    )
    assert early == pytest.approx(sale.early_starts_at.timestamp() * 1e6, abs=1)
    assert of[rows.Early] == rows.Early(str(sale.pk), str(buyer.pk))
    read = of[rows.Order]
    assert isinstance(read, rows.Order)
    assert (read.amount, read.to_pay, read.refunded) == (5 * 333, 3 * 333, 0)
    assert read.created == microseconds("created")
    assert read.pay_before == microseconds("pay_before") == read.created + hold
    held = of[rows.Reservation]
    assert isinstance(held, rows.Reservation)
    assert (held.quantity, held.returned, held.deadline) == (5, 2, read.pay_before)
    event = of[rows.Event]
    assert isinstance(event, rows.Event)
    assert (event.order, event.name) == (str(order.pk), "part_cancelled")
    assert (event.amount, event.quantity, event.sale) == (2 * 333, 2, str(sale.pk))
    assert read.created <= event.at <= before[1]
    assert of[rows.Buyer] == rows.Buyer(str(buyer.pk), "ann@example.com")


def test_snapshot_counts_an_expiry_as_pending_until_its_mail() -> None:
    lasting, brief = a_sale(), a_sale(hold=timedelta(milliseconds=1))
    an_order(lasting)
    order = an_order(brief)
    follow_up()
    assert snapshot.pending([lasting.pk]) == 0
    assert snapshot.pending([brief.pk]) == 1, "the expiry"
    assert orders.expire() == 1
    assert Order.objects.get(pk=order.pk).status == "expired"
    assert snapshot.pending([brief.pk]) == 1, "the message about it"
    follow_up()
    assert snapshot.pending([brief.pk]) == 0
    expired = mail(order, "expired")
    expired.update(done=None)
    assert snapshot.pending([brief.pk]) == 1, "the mail"
    expired.update(dead=Order.objects.get(pk=order.pk).created)
    assert snapshot.pending([brief.pk]) == 0, "nobody tries it again"


@pytest.fixture
def port(tmp_path: Path, settings: Any) -> Iterator[int]:
    """The lab's mail server, to which the shop sends."""
    folder, port = tmp_path / "mail", next_free(environment.MAIL_PORT)
    settings.SHOP_MAIL_INTERVAL = 0
    settings.MAIL_FOLDER = folder
    settings.EMAIL_BACKEND = "django.core.mail.backends.smtp.EmailBackend"
    settings.EMAIL_HOST, settings.EMAIL_PORT = "127.0.0.1", port
    words = ("lab.mail_server", "--port", str(port), "--folder", str(folder))
    with Greeter("mail", words, port=port) as server:
        release(port)
        yield port
        assert server.process is not None
        server.process.terminate()
        assert server.process.wait(timeout=10) == 0


def an_order_of(name: str) -> Order:
    buyer = User.objects.create(username=name, email=f"{name}@example.com")
    return an_order(a_sale(price=1_250, currency="EUR"), buyer)


def delivered(*orders: Order) -> list[rows.Delivery]:
    sales = [line.sale_id for order in orders for line in order.lines.all()]
    path = Path(snapshot.settings.MAIL_FOLDER) / "deliveries"
    path.write_text("".join(snapshot.delivery_lines(sales)))
    _, found = rows.read(path)
    return [row for row in found if isinstance(row, rows.Delivery)]


def test_snapshot_reads_a_sent_mail_with_buyer_order_amount(
    port: int,
) -> None:
    order, other = an_order_of("ann"), an_order_of("bob")
    follow_up()
    [mail] = delivered(order)
    assert mail.message == f"<confirmation.{order.pk}@{identity()}.localhost>"
    assert (mail.name, mail.order) == ("confirmation", str(order.pk))
    assert mail.recipient == "ann@example.com"
    assert mail.subject == "Reserved for you: 1 × Phone / 抢购成功：1 × Phone"
    assert f"{order.pk}" in mail.text
    assert "€12.50" in mail.text
    assert {each.recipient for each in delivered(order, other)} == {
        "ann@example.com",
        "bob@example.com",
    }


def test_snapshot_counts_deliveries_and_not_marks(port: int) -> None:
    order, other = an_order_of("ann"), an_order_of("bob")
    follow_up()
    mail(order).update(done=None)
    follow_up()
    assert len(delivered(order)) == 2
    with transaction.atomic():
        sending.enqueue(Kind.PAID, [other.pk])
    mail(other, "paid").update(done=other.created)
    assert [each.name for each in delivered(other)] == ["confirmation"]


def test_snapshot_includes_unexpected_mails_of_the_run(port: int) -> None:
    earlier, order = an_order_of("ann"), an_order_of("bob")
    unknown = order.pk + 1_000_000
    for message_id in (
        f"<paid.{unknown}@abc.shop>",
        "<hello@elsewhere>",
        "<paid.x@abc.shop>",
    ):
        mail = EmailMessage("Hi", "", None, ["eve@example.com"], headers={"Message-ID": message_id})
        get_connection().send_messages([mail])
    follow_up()
    mails = [(mail.message, mail.name, mail.order) for mail in delivered(order)]
    assert sorted(mails) == sorted(
        [
            (f"<confirmation.{order.pk}@{identity()}.localhost>", "confirmation", str(order.pk)),
            (f"<paid.{unknown}@abc.shop>", "paid", str(unknown)),
            ("<hello@elsewhere>", "", ""),
            ("<paid.x@abc.shop>", "", ""),
        ]
    )
    assert len(delivered(earlier, order)) == 5


def test_snapshot_takes_a_mails_recipient_from_the_envelope(port: int) -> None:
    order = an_order_of("ann")
    mail = f"To: ann@example.com\r\nMessage-ID: <paid.{order.pk}@abc.shop>\r\n\r\nHi\r\n"
    with smtplib.SMTP("127.0.0.1", port) as client:
        client.sendmail("shop@localhost", ["eve@example.com", "bob@example.com"], mail)
    assert [each.recipient for each in delivered(order)] == ["eve@example.com", "bob@example.com"]


def test_snapshot_without_a_mail_folder_has_no_mails(settings: Any, tmp_path: Path) -> None:
    settings.MAIL_FOLDER = tmp_path / "nowhere"
    with pytest.raises(snapshot.NoMailServer):
        snapshot.delivery_lines([a_sale().pk])


def test_database_shell_line_shows_stock_and_reservations() -> None:
    sale = a_sale(stock=9, limit=5)
    an_order(sale, User.objects.create(username="b"), quantity=3)
    command, query, _ = look_of(str(sale.pk)).split('"')
    assert command == "python3 manage.py dbshell -- -c "
    with connection.cursor() as cursor:
        cursor.execute(query)
        assert cursor.fetchall() == [(9, 6, 3, 0)]


def test_snapshot_includes_the_ledger_and_money_without_an_order(psp, sale, ann, tmp_path):
    other = ann.order(sale)
    bought = ann.order(sale)
    provider = HttpProvider()
    lost = bought + 1_000_000  # the shop does not know it
    for order in (other, bought, lost):
        intent = provider.create_intent(order=order, amount=1000, currency="CNY", key=str(uuid4()))
        provider.capture(intent.id, key=str(uuid4()))
    (tmp_path / "ledger").write_text("".join(snapshot.ledger_rows([bought])))
    _, found = rows.read(tmp_path / "ledger")
    assert [(type(row), *list(asdict(row).values())[1:]) for row in found] == [
        (rows.Payment, str(bought), "capture", 1000, "CNY"),
        (rows.Payment, str(lost), "capture", 1000, "CNY"),
    ]
    answer = ann.get(f"demo/sales/{sale.pk}/ledger")
    told = [json.loads(line) for line in b"".join(answer.streaming_content).splitlines()]
    assert [(row["kind"], row.get("order")) for row in told] == [
        ("snapshot", None),
        *(("payment", str(order)) for order in (other, bought, lost)),
        ("end", None),
    ]


def test_snapshot_waits_for_money_that_is_under_way(psp, sale, ann):
    order = ann.order(sale)
    before = snapshot.pending([sale.pk])
    psp.behave(processing=60_000)
    ann.post(f"orders/{order}/payment")
    assert Payment.objects.get(order=order).state == Payment.State.PENDING
    assert snapshot.pending([sale.pk]) == before + 1
