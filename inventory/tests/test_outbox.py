"""The outbox: every message takes effect once, despite crashes, failures and late commits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from typing import Any

import pytest
from django.db import connection, transaction
from django.db.models import Value

from inventory import outbox
from inventory.models import OutboxMessage
from inventory.tests.helpers import at_once, outsider
from inventory.tests.processes import workers
from locking.tests.helpers import eventually

pytestmark = pytest.mark.django_db(transaction=True)

INSERT = "INSERT INTO inventory_outboxmessage (topic, payload) VALUES ('cause', %s)"


def emit(*payloads: object, topic: str = "cause") -> None:
    with transaction.atomic():
        for payload in payloads:
            outbox.emit(topic, payload)


def effects() -> Counter[object]:
    return Counter(OutboxMessage.objects.filter(topic="effect").values_list("payload", flat=True))


def take_effect(payload: object) -> None:
    """Write an effect in the transaction that marks the message done: a row to count."""
    outbox.emit("effect", payload)


def deliver(**how) -> int:
    return outbox.deliver({"cause": take_effect, "effect": lambda payload: None}, **how)


def test_outbox_message_is_handled_with_its_payload_and_done():
    seen: list[object] = []
    emit({"orders": [1, 2]})
    assert outbox.pending() == 1
    assert outbox.deliver({"cause": seen.append}) == 1
    assert seen == [{"orders": [1, 2]}]
    message = OutboxMessage.objects.get()
    assert (message.attempts, message.error) == (1, "")
    assert message.done is not None
    assert (outbox.pending(), outbox.deliver({"cause": seen.append})) == (0, 0)


def test_outbox_refuses_a_message_without_a_transaction():
    with pytest.raises(transaction.TransactionManagementError):
        outbox.emit("cause", 1)


def test_outbox_message_that_fails_is_retried_later():
    failures = [ValueError("cannot be done")]

    def handle(payload: object) -> None:
        take_effect(payload)
        if payload == "bad" and failures:
            raise failures.pop()

    handlers = {"cause": handle, "effect": lambda payload: None}
    emit("one", "bad", "two")
    outbox.deliver(handlers)
    assert effects() == {"one": 1, "two": 1}, "the failed attempt is rolled back"
    bad = OutboxMessage.objects.get(payload="bad")
    assert (bad.done, bad.attempts, bad.error) == (None, 1, "ValueError: cannot be done")
    assert bad.not_before > bad.created
    OutboxMessage.objects.filter(pk=bad.pk).update(not_before="2020-01-01T00:00Z")
    outbox.deliver(handlers)
    assert effects() == {"one": 1, "two": 1, "bad": 1}
    bad.refresh_from_db()
    assert (bad.attempts, bad.error) == (2, "")


def test_outbox_pause_grows_with_each_failure_up_to_a_bound(monkeypatch):
    def fail(payload: object) -> None:
        raise ValueError

    emit("bad")
    now = datetime(2100, 1, 1, tzinfo=UTC)
    pauses = []
    for _ in range(12):
        monkeypatch.setattr(outbox, "Now", partial(Value, now))
        assert outbox.deliver({"cause": fail}, limit=1) == 0
        due = OutboxMessage.objects.get().not_before
        pauses.append(due - now)
        now = due
    for failures, pause in enumerate(pauses):
        least = min(outbox.FIRST_PAUSE * 2**failures, outbox.MAX_PAUSE)
        assert least <= pause <= (1 + outbox.JITTER) * least
    assert pauses[-1] >= outbox.MAX_PAUSE
    assert len(set(pauses[-3:])) == 3, "pauses differ, so that retries spread"


@pytest.mark.parametrize("once", [False, True], ids=["repeatable", "at most once"])
def test_outbox_message_that_fails_too_often_is_dead(once, monkeypatch):
    emit("bad", "good")
    monkeypatch.setattr(outbox, "MAX_ATTEMPTS", 2)
    asked: list[Any] = []

    def handle(payload: object) -> None:
        asked.append(payload)
        if payload == "bad":
            if once:
                raise outbox.NoEffect from ValueError("cannot be done")
            raise ValueError("cannot be done")

    handlers = {"cause": handle}
    for _ in range(4):
        outbox.deliver({} if once else handlers, at_most_once=handlers if once else {})
        OutboxMessage.objects.update(not_before="2020-01-01T00:00Z")
    bad = OutboxMessage.objects.get(payload="bad")
    assert (bad.done, bad.attempts, bad.error) == (None, 2, "ValueError: cannot be done")
    assert (bad.dead is not None, sorted(asked)) == (True, ["bad", "bad", "good"])
    assert (outbox.due(), outbox.pending()) == (False, 1), "not retried, and not lost"
    assert outbox.retry(OutboxMessage.objects.all()) == 1
    assert outbox.due()


def test_outbox_delivery_ends_after_its_time_or_limit():
    emit(*range(6))
    handlers = {"cause": lambda payload: None}
    assert outbox.deliver(handlers, seconds=0) == 1
    assert outbox.due()
    assert [outbox.deliver(handlers, limit=2) for _ in range(4)] == [2, 2, 1, 0]
    assert not outbox.due()


def test_outbox_delivery_handles_only_its_queue():
    with transaction.atomic():
        outbox.emit("cause", "slow", queue="slow")
        outbox.emit("cause", "quick")
    handled: list[object] = []
    for queue, expected in (("", ["quick"]), ("slow", ["quick", "slow"])):
        assert outbox.due(queue)
        assert outbox.upcoming(queue, 5) == expected[-1:]
        assert outbox.deliver({"cause": handled.append}, queue=queue) == 1
        assert handled == expected
        assert not outbox.due(queue)


def test_outbox_has_one_message_per_topic_and_key():
    for keys in (["1", "2"], ["2", "3"]):
        with transaction.atomic():
            outbox.emit_once("cause", {key: f"about {key}" for key in keys})
    with transaction.atomic():
        outbox.emit_once("other cause", {"1": "another message"})
    messages = OutboxMessage.objects.order_by("topic", "key").values_list("payload", flat=True)
    assert list(messages) == ["about 1", "about 2", "about 3", "another message"]


def test_outbox_message_without_a_handler_stays_with_its_error():
    emit(1, topic="unheard of")
    assert deliver() == 0
    message = OutboxMessage.objects.get()
    assert (message.done, message.attempts) == (None, 1)
    assert "unheard of" in message.error


def test_several_workers_at_once_handle_each_message_once():
    emit(*range(120))
    assert sum(at_once([partial(outbox.deliver, {"cause": take_effect}, limit=120)] * 6)) <= 120
    outbox.deliver({"cause": take_effect})
    assert effects() == dict.fromkeys(range(120), 1)


def test_outbox_message_that_commits_late_is_not_skipped():
    """The other transaction gets its id first and commits last."""
    with outsider() as slow:
        slow.execute("BEGIN")
        slow.execute(INSERT, ['"early id"'])
        emit("late id")
        deliver()
        assert effects() == {"late id": 1}
        slow.execute("COMMIT")
    deliver()
    assert effects() == {"early id": 1, "late id": 1}
    ids = OutboxMessage.objects.filter(topic="cause").order_by("pk")
    assert [message.payload for message in ids] == ["early id", "late id"]


def test_outbox_message_of_a_slow_worker_is_not_waited_for():
    emit("held", "free")
    with outsider() as other:
        other.execute("BEGIN")
        other.execute("SELECT FROM inventory_outboxmessage WHERE payload = '\"held\"' FOR UPDATE")
        deliver()
        assert effects() == {"free": 1}
        other.execute("COMMIT")
    deliver()
    assert effects() == {"free": 1, "held": 1}


def test_outbox_worker_killed_in_a_handler_leaves_no_effect():
    emit("one")
    with workers(1) as [worker]:
        worker.tell("deliver", stop="before_commit")
        assert worker.hear() == "before_commit"
        worker.kill()
    assert effects() == {}
    eventually(deliver)  # the server notices the death of its client in its own time
    assert effects() == {"one": 1}
    assert outbox.pending() == 0


# --- effects that must not be repeated -------------------------------------------------------


def deliver_once(handle: Callable[[object], None], **how: Any) -> int:
    return outbox.deliver({}, at_most_once={"cause": handle}, **how)


def test_outbox_calls_an_at_most_once_handler_after_the_commit():
    seen = []

    def handle(payload: object) -> None:
        with outsider() as other:
            [[done]] = other.execute("SELECT done FROM inventory_outboxmessage").fetchall()
        seen.append((payload, done is not None, connection.in_atomic_block))

    emit("one")
    assert deliver_once(handle) == 1
    assert seen == [("one", True, False)]
    assert OutboxMessage.objects.get().attempts == 1


def test_outbox_keeps_the_error_of_an_at_most_once_handler():
    asked = []

    def lose_the_answer(payload: object) -> None:
        asked.append(payload)
        raise TimeoutError("no answer")

    emit("one", "two")
    assert deliver_once(lose_the_answer) == 2
    OutboxMessage.objects.update(not_before="2020-01-01T00:00Z")
    assert deliver_once(lose_the_answer) == 0
    assert asked == ["one", "two"]
    assert {message.error for message in OutboxMessage.objects.all()} == {"TimeoutError: no answer"}
    assert outbox.pending() == 0
