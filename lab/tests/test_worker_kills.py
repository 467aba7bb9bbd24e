"""Workers and their process groups are killed during follow-ups; each effect happens once.

The suite runs a short form. The long one:

    FOLLOW_UPS=20000 WORKER_KILLS=50 make test ARGS="-n 0 -s lab/tests/test_worker_kills.py"
"""

from __future__ import annotations

import os
import random
import re
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from inventory import outbox
from inventory.models import OutboxMessage
from inventory.outcomes import Purchase, PurchaseTicket
from inventory.redis import client
from inventory.selling import batch
from lab.tests.mail_server import mail_server
from shop.accounts.models import User
from shop.background import expiry
from shop.catalogue.models import Sale
from shop.orders import OPENED, open_orders
from shop.orders.models import Order
from shop.tests.catalogue import a_sale
from shop.tests.processes import wait_for
from shop.tests.workers import Worker, celery

pytestmark = [
    pytest.mark.long,
    pytest.mark.django_db(transaction=True),
    # The long form takes minutes.
    pytest.mark.timeout(3600),
]

FOLLOW_UPS = int(os.environ.get("FOLLOW_UPS", "400"))
KILLS = int(os.environ.get("WORKER_KILLS", "4"))
TIMEOUT = 120
AT_ONCE = 250


def orders_to_follow_up(sale: Sale) -> None:
    """Create an order per buyer and a message per order."""
    names = (User(username=f"buyer-{number}", password="!") for number in range(FOLLOW_UPS))
    buyers = [user.pk for user in User.objects.bulk_create(names)]
    for first in range(0, FOLLOW_UPS, AT_ONCE):
        tickets = [
            PurchaseTicket(Purchase(sale.item_id, sale.pk, buyer, uuid4(), 1, 1, sale.hold))
            for buyer in buyers[first : first + AT_ONCE]
        ]
        batch.sell(tickets, open_orders, None)
    OutboxMessage.objects.all().delete()
    OutboxMessage.objects.bulk_create(
        OutboxMessage(topic=OPENED, payload={"orders": [pk]})
        for pk in Order.objects.values_list("pk", flat=True)
    )


def done() -> int:
    return OutboxMessage.objects.filter(topic=OPENED, done__isnull=False).count()


def sent(folder: Path) -> Counter[str]:
    """Count the copies of each mail by Message-ID."""
    files = (path.read_text() for path in folder.glob("*.eml"))
    return Counter(
        found for text in files for found in re.findall(r"^Message-ID: (.*)$", text, re.M)
    )


@pytest.fixture
def mails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder of a mail server to which the workers send."""
    with mail_server(tmp_path / "mail") as port:
        monkeypatch.setenv("EMAIL_HOST", "127.0.0.1")
        monkeypatch.setenv("EMAIL_PORT", str(port))
        yield tmp_path / "mail"


def test_no_follow_up_is_lost_or_doubled_though_workers_are_killed_again_and_again(
    tmp_path, monkeypatch, mails
):
    client().flushdb()
    monkeypatch.setattr(outbox, "listeners", [])
    broker, log = os.environ["CELERY_BROKER_URL"], tmp_path / "log"
    seed = int(os.environ.get("SEED", time.time_ns() % 1_000_000))
    pauses = random.Random(seed)
    orders_to_follow_up(a_sale(stock=FOLLOW_UPS))
    began = time.monotonic()
    beat = celery("beat", "-s", str(tmp_path / "schedule"), "--pidfile=", broker=broker, log=log)
    worker = Worker(broker, log)
    try:
        for number in range(KILLS):
            # Within the next part, so that each kill hits working workers.
            wait_for(lambda: done() > FOLLOW_UPS * number // (KILLS + 1), TIMEOUT)  # noqa: B023
            time.sleep(pauses.uniform(0, 0.2))
            worker.kill()
            worker = Worker(broker, log)
        wait_for(lambda: outbox.pending() == 0, TIMEOUT)
    finally:
        beat.kill()
        beat.wait()
        worker.kill()
    took = time.monotonic() - began

    confirmations = OutboxMessage.objects.filter(topic="mails.confirmation", done__isnull=False)
    assert confirmations.count() == FOLLOW_UPS
    assert confirmations.values("key").distinct().count() == FOLLOW_UPS
    assert len(expiry.queue()) + expiry.queue().in_flight() == FOLLOW_UPS
    copies = sent(mails)
    assert len(copies) == FOLLOW_UPS, "sent, each under one Message-ID"
    twice = sum(count - 1 for count in copies.values())
    print(
        f"\n{FOLLOW_UPS} follow-ups, {KILLS} kills (seed {seed}) in {took:.0f} s: "
        f"0 lost, 0 duplicated; {twice} mails were sent twice under the same Message-ID"
    )
