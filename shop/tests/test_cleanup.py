"""The clean-up deletes what is old, a bounded number at a time, and nothing that is needed."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.contrib.sessions.models import Session
from django.utils.timezone import now

from inventory.models import OutboxMessage
from shop.accounts.models import AddressMails, PendingAddress
from shop.background import cleanup, tasks
from shop.background.config import TASKS, beat_schedule
from shop.payments.models import WebhookEvent
from shop.tests.catalogue import a_buyer

pytestmark = pytest.mark.django_db


def make_rows(age: timedelta, name: str) -> None:
    """Make one row of each kind, so long ago."""
    then = now() - age
    Session.objects.create(session_key=name, session_data="", expire_date=then)
    OutboxMessage.objects.create(topic="t", key=name, payload={}, done=then)
    OutboxMessage.objects.create(topic="dead", key=name, payload={}, dead=then, created=then)
    WebhookEvent.objects.create(id=name, type="t", received=then)
    PendingAddress.objects.create(user=a_buyer(), address="a@example.com", since=then)
    AddressMails.objects.create(digest=name, since=then, number=1)


def counts() -> dict[str, int]:
    return {name: rows.model.objects.count() for name, rows in cleanup._old().items()}


def test_clean_up_deletes_old_rows_and_keeps_the_others() -> None:
    make_rows(timedelta(days=91), "old")
    make_rows(timedelta(minutes=-5), "new")
    assert cleanup.clean_up() == dict.fromkeys(counts(), 1)
    assert counts() == {**dict.fromkeys(counts(), 1), "messages": 3}
    assert cleanup.clean_up() == dict.fromkeys(counts(), 0), "the second time"
    tasks.clean_up()


def test_clean_up_keeps_what_idempotency_needs() -> None:
    make_rows(timedelta(days=29), "recent")
    assert cleanup.clean_up()["messages"] == cleanup.clean_up()["events"] == 0


def test_clean_up_is_bounded_per_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cleanup, "MAX_ROWS", 5)
    monkeypatch.setattr(cleanup, "AT_ONCE", 2)
    then = now() - timedelta(days=1)
    for number in range(8):
        Session.objects.create(session_key=f"s{number}", session_data="", expire_date=then)
    assert [cleanup.clean_up()["sessions"] for _ in range(3)] == [5, 3, 0]


def test_clean_up_is_sent_once_a_day() -> None:
    assert "shop.clean_up" in {name for name, _, _ in TASKS}
    schedule = beat_schedule["shop.clean_up"]["schedule"]
    assert (schedule.hour, schedule.minute) == ({3}, {30})
