"""A promise is kept on its second path too: page and API, cart and purchase, part and whole, HTML
and text, edit and create, and in what operators are shown."""

from __future__ import annotations

import re
from datetime import timedelta
from uuid import uuid4

import pytest
from django.core.management import call_command
from django.db.models.functions import Now
from django.test import Client
from django.urls import reverse

from inventory.models import OutboxMessage
from shop import orders, payments
from shop.audit import late
from shop.audit.alerts import raise_alerts
from shop.audit.models import Alert
from shop.audit.report import Report
from shop.background import follow_up
from shop.catalogue.models import Sale
from shop.checkout.rate_limit import limiter
from shop.conftest import Buyer
from shop.mails import sending
from shop.mails.rendering import Kind, letter
from shop.operating.metrics.state import pending
from shop.orders import NoSuchPart, Part, WrongState
from shop.orders.models import Order
from shop.pages.tests.forms import page
from shop.tests.catalogue import a_sale, an_order
from shop.tests.money import make_due

REFUSED = (NoSuchPart, WrongState)

pytestmark = pytest.mark.django_db(transaction=True)


def fields(text: str, action: str) -> dict[str, str]:
    """Return the values of the form on a page that is sent to `action`, as rendered."""
    found = re.search(rf'<form[^>]*action="{re.escape(action)}".*?</form>', text, re.DOTALL)
    assert found is not None, action
    tags = re.findall(r"<(?:input|select|textarea)\b[^>]*>", found[0])
    named = {tag: re.search(r'name="([^"]*)"', tag) for tag in tags}
    values = {tag: re.search(r'value="([^"]*)"', tag) for tag in tags}
    return {name[1]: value[1] for tag, name in named.items() if name and (value := values[tag])}


@pytest.mark.parametrize("change", ["refund", "cancel"])
def test_the_form_of_a_part_that_is_sent_twice_gives_one_part_back(client, change, fake_provider):
    mine = an_order(a_sale(limit=5), quantity=4)
    if change == "refund":
        payments.pay(mine)
    client.force_login(mine.buyer)
    where = reverse(change, args=[mine.pk])
    shown = page(client.get(mine.get_absolute_url()))
    [part] = [form for form in re.findall(r"<form.*?</form>", shown, re.DOTALL) if "part" in form]
    form = fields(part, where)
    assert set(form) >= {"key", "sale", "quantity"}
    for _ in range(2):
        client.post(where, form)
    [line] = Order.objects.with_lines().get(pk=mine.pk).lines.all()
    assert (line.live, line.returned) == (3, 1)
    assert fake_provider.refunds[mine.pk] == ([line.price] if change == "refund" else [])


@pytest.mark.parametrize("where", ["awaiting_payment", "fulfilled", "cancelled", "refunded"])
def test_a_part_is_returned_only_of_an_order_that_is_paid_and_not_handed_over(
    where: str, fake_provider
):
    mine = an_order(a_sale(limit=5), quantity=3)
    if where == "cancelled":
        orders.cancel(mine)
    elif where != "awaiting_payment":
        payments.pay(mine)
    if where == "fulfilled":
        orders.fulfil(mine)
    if where == "refunded":
        payments.refund(mine)
    before = list(fake_provider.refunds[mine.pk])
    mine.refresh_from_db()
    with pytest.raises(REFUSED):
        payments.refund(mine, Part(1, uuid4()))
    assert fake_provider.refunds[mine.pk] == before


@pytest.mark.parametrize("where", ["paid", "fulfilled", "expired", "refunded"])
def test_a_part_is_cancelled_only_of_an_order_that_awaits_its_payment(where: str):
    mine = an_order(a_sale(limit=5), quantity=3)
    if where == "expired":
        make_due(mine)
        orders.expire()
    else:
        payments.pay(mine)
    if where == "fulfilled":
        orders.fulfil(mine)
    if where == "refunded":
        payments.refund(mine)
    mine.refresh_from_db()
    with pytest.raises(REFUSED):
        orders.cancel(mine, Part(1, uuid4()))


def test_carts_count_towards_the_rate_limit(ann: Buyer, sale: Sale, settings):
    settings.SHOP_RATE_LIMIT = 1
    limiter.cache_clear()
    try:
        cart = {"lines": [{"sale": sale.pk, "quantity": 1}]}
        answers = [
            ann.call("POST", "orders", cart, idempotency_key=str(uuid4())).status_code
            for _ in range(3)
        ]
        assert answers == [201, 201, 429]
    finally:
        limiter.cache_clear()


def test_the_audit_tells_messages_that_wait_from_mails_that_wait():
    an_order(a_sale())
    OutboxMessage.objects.update(not_before=Now() - timedelta(hours=1))
    assert late.work() == ["1 messages of the outbox wait"]
    OutboxMessage.objects.update(queue=sending.QUEUE)
    assert late.work() == ["1 mails wait"]
    OutboxMessage.objects.update(dead=Now())
    assert late.work() == ["1 mails are dead"]


def test_a_mail_that_was_given_up_is_in_the_metrics_as_a_mail():
    an_order(a_sale())
    follow_up.follow_up()
    mails = OutboxMessage.objects.filter(queue=sending.QUEUE)
    assert mails.update(done=None, dead=Now()) == 1
    found = {each.kind: (each.waiting, each.dead) for each in pending()}
    assert (found["mail"], found["outbox"]) == ((0, 1), (0, 0))


@pytest.mark.parametrize("kind", list(Kind))
def test_both_parts_of_a_mail_give_the_same_amounts_in_the_same_order(kind: Kind):
    order = an_order(a_sale(limit=3, price=1_250), quantity=3)
    order.refunded = 1_250
    written = letter(kind, order)
    amounts = re.compile(r"CN¥[\d.,]*\d")
    assert amounts.findall(written.html) == amounts.findall(written.text)
    assert amounts.findall(written.text)[:2] == ["CN¥37.50", "CN¥37.50"]


@pytest.mark.parametrize(("currency", "price"), [("JPY", 1_500), ("CNY", 99_900), ("KWD", 1_250)])
def test_saving_a_sale_as_its_form_shows_it_changes_nothing(
    admin_client: Client, currency: str, price: int
):
    sale = a_sale(currency=currency, price=price)
    where = reverse("admin:shop_sale_change", args=[sale.pk])
    shown = page(admin_client.get(where))
    form = fields(re.sub(r'id="sale_form"', f'action="{where}"', shown), where)
    answer = admin_client.post(where, form)
    assert answer.status_code == 302, page(answer)
    again = Sale.objects.get(pk=sale.pk)
    assert (again.price, again.currency, again.hold) == (price, currency, sale.hold)


@pytest.mark.parametrize(
    ("option", "value", "field", "expected"),
    [
        ("hold", 60, "hold", timedelta(seconds=60)),
        ("limit", 3, "limit", 3),
        ("price", 12, "price", 1_200),
        ("stock", 7, "item.total", 7),
    ],
)
def test_every_option_of_create_sale_has_its_effect(option, value, field, expected, capsys):
    call_command("create_sale", f"--{option}={value}")
    found = Sale.objects.select_related("item").get()
    for name in field.split("."):
        found = getattr(found, name)
    assert found == expected


def test_a_sale_that_is_created_to_start_later_is_not_open_yet(capsys):
    call_command("create_sale", starts_in=3_600)
    call_command("create_sale")
    assert Sale.objects.filter(starts_at__gt=Now()).count() == 1


def test_each_order_has_an_alert_of_its_own_whose_figures_may_change():
    said = ["order 7 is paid, but 3 units are held", "order 8 is paid, but 3 units are held"]
    assert raise_alerts(Report(problems=said, overdue=["2 mails wait"])) == 3
    opened = set(Alert.objects.values_list("pk", flat=True))
    later = ["order 7 is paid, but 2 units are held", said[1]]
    assert raise_alerts(Report(problems=later, overdue=["5 mails wait"])) == 3
    assert set(Alert.objects.values_list("pk", flat=True)) == opened
    texts = Alert.objects.values_list("text", flat=True)
    assert set(texts) == {*later, "5 mails wait"}
