"""The mail server keeps what it accepts, and a proof reads there who got which mail."""

from __future__ import annotations

import smtplib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.core.mail import EmailMessage, get_connection
from django.db import transaction

from lab.proof import final_read
from lab.tests.mail_server import mail_server
from loadtest.checker import snapshot
from loadtest.checker.snapshot import Delivery
from shop.accounts.models import User
from shop.background.follow_up import follow_up
from shop.mails import sending
from shop.mails.rendering import Kind
from shop.orders.models import Order
from shop.tests.catalogue import a_sale, an_order, mail

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def port(tmp_path: Path, settings: Any) -> Iterator[int]:
    """A mail server to which the shop sends."""
    settings.MAIL_FOLDER = tmp_path / "mail"
    settings.EMAIL_BACKEND = "django.core.mail.backends.smtp.EmailBackend"
    with mail_server(tmp_path / "mail") as port:
        settings.EMAIL_HOST, settings.EMAIL_PORT = "127.0.0.1", port
        yield port


def an_order_of(name: str) -> Order:
    buyer = User.objects.create(username=name, email=f"{name}@example.com")
    return an_order(a_sale(price=1_250, currency="EUR"), buyer)


def delivered(*orders: Order) -> list[Delivery]:
    sales = [line.sale_id for order in orders for line in order.lines.all()]
    path = Path(final_read.settings.MAIL_FOLDER) / "deliveries"
    path.write_text("".join(final_read.delivery_lines(sales)))
    _, rows = snapshot.read(path)
    return [row for row in rows if isinstance(row, Delivery)]


def test_a_mail_that_was_sent_is_read_from_the_server_with_buyer_order_and_amount(
    port: int,
) -> None:
    order, other = an_order_of("ann"), an_order_of("bob")
    follow_up()
    [mail] = delivered(order)
    assert mail.message == f"<confirmation.{order.pk}@flash-sale>"
    assert (mail.name, mail.order) == ("confirmation", str(order.pk))
    assert mail.recipient == "ann@example.com"
    assert mail.subject == "Reserved for you: 1 × Phone / 抢购成功：1 × Phone"
    assert f"{order.pk}" in mail.text
    assert "€12.50" in mail.text
    assert {each.recipient for each in delivered(order, other)} == {
        "ann@example.com",
        "bob@example.com",
    }


def test_a_mail_sent_twice_is_delivered_twice_and_one_only_marked_as_sent_never(port: int) -> None:
    order, other = an_order_of("ann"), an_order_of("bob")
    follow_up()
    mail(order).update(done=None)
    follow_up()
    assert len(delivered(order)) == 2
    with transaction.atomic():
        sending.enqueue(Kind.PAID, [other.pk])
    mail(other, "paid").update(done=other.created)
    assert [each.name for each in delivered(other)] == ["confirmation"]


def test_mails_that_nobody_asked_for_belong_to_the_run_others_do_not(port: int) -> None:
    earlier, order = an_order_of("ann"), an_order_of("bob")
    unknown = order.pk + 1_000_000
    for message_id in (f"<paid.{unknown}@flash-sale>", "<hello@elsewhere>", "<paid.x@flash-sale>"):
        mail = EmailMessage("Hi", "", None, ["eve@example.com"], headers={"Message-ID": message_id})
        get_connection().send_messages([mail])
    follow_up()
    told = [(each.message, each.name, each.order) for each in delivered(order)]
    assert sorted(told) == sorted(
        [
            (f"<confirmation.{order.pk}@flash-sale>", "confirmation", str(order.pk)),
            (f"<paid.{unknown}@flash-sale>", "paid", str(unknown)),
            ("<hello@elsewhere>", "", ""),
            ("<paid.x@flash-sale>", "", ""),
        ]
    )
    assert len(delivered(earlier, order)) == 5


def test_the_envelope_decides_whom_a_mail_went_to(port: int) -> None:
    order = an_order_of("ann")
    mail = f"To: ann@example.com\r\nMessage-ID: <paid.{order.pk}@flash-sale>\r\n\r\nHi\r\n"
    with smtplib.SMTP("127.0.0.1", port) as client:
        client.sendmail("shop@localhost", ["eve@example.com", "bob@example.com"], mail)
    assert [each.recipient for each in delivered(order)] == ["eve@example.com", "bob@example.com"]


def test_without_a_folder_of_mails_there_is_nothing_to_judge(settings: Any, tmp_path: Path) -> None:
    settings.MAIL_FOLDER = tmp_path / "nowhere"
    with pytest.raises(final_read.NoMailServer):
        final_read.delivery_lines([a_sale().pk])
