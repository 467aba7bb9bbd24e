"""Health checks for load balancers, supervisors and the metrics; each is bounded in time."""

from __future__ import annotations

import json
import queue
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import closing
from contextvars import copy_context
from dataclasses import dataclass
from typing import Any

from django.db import connection
from django.db.models import DurationField, ExpressionWrapper, F
from django.db.models.functions import Now
from django.http import HttpRequest, HttpResponse
from kombu.exceptions import ChannelError

from inventory.models import OutboxMessage
from shop.redis import client

MAX_SECONDS = 2.0
"""Seconds to wait for all answers; less than the usual time-outs of probes and scrapes."""

MAX_AGE = 1.0
"""Seconds for which an answer of `ready` is repeated: calls from outside cost no query each."""

LATE = 60.0
"""Seconds of outbox lag from which a replica reports that the follow-up is late."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What a question came to.

    Attributes:
        value: what the function returned.
        error: why there is none; None if there is one.
    """

    value: Any = None
    error: str | None = None


_under_way: set[str] = set()
"""Questions without an answer yet: a server that hangs costs one thread and not one per call."""


def asked(questions: Mapping[str, Callable[[], Any]]) -> dict[str, Finding]:
    """Ask all questions at once and wait for at most `MAX_SECONDS` seconds.

    Threads, because a paused server ignores a time limit that only itself would keep.
    """
    answers: queue.SimpleQueue[tuple[str, Finding]] = queue.SimpleQueue()

    def ask(name: str) -> None:
        try:
            answers.put((name, Finding(questions[name]())))
        except Exception as error:  # noqa: BLE001  # whatever it is, it is no answer
            answers.put((name, Finding(error=type(error).__name__)))
        finally:
            _under_way.discard(name)

    findings = {name: Finding(error="no answer in time") for name in questions}
    free = [name for name in questions if name not in _under_way]
    _under_way.update(free)
    for name in free:
        # In this thread's context: what it asks the database, it asks from the request's share.
        run = copy_context().run
        threading.Thread(target=run, args=[ask, name], name=f"asks {name}", daemon=True).start()
    end = time.monotonic() + MAX_SECONDS
    for _ in free:
        try:
            name, answer = answers.get(timeout=max(0.0, end - time.monotonic()))
        except queue.Empty:
            break
        findings[name] = answer
    return findings


class ReadOnlyDatabase(Exception):
    """The database answers and takes no writes."""


def ask_database() -> None:
    """Raise an error unless the database answers and takes writes.

    Raises:
        ReadOnlyDatabase: it is a standby, or its sessions are read-only by a setting.
    """
    # Closed, which gives it back to the pool.
    with closing(connection), connection.cursor() as cursor:
        cursor.execute("SHOW transaction_read_only")
        if cursor.fetchone() != ("off",):
            raise ReadOnlyDatabase


def ask_broker() -> None:
    """Raise an error unless Celery's broker answers."""
    # Imported here: the Celery app needs a broker's address, which not every command has.
    from shop.celery import app

    with app.connection_for_read() as broker:
        broker.ensure_connection(max_retries=1, timeout=MAX_SECONDS)
        broker.default_channel.close()


def queue_lengths() -> dict[str, int]:
    """Return the number of tasks in each of the broker's queues."""
    from shop.background.config import QUEUES
    from shop.celery import app

    lengths = dict.fromkeys(QUEUES, 0)
    with app.connection_for_read() as broker:
        for name in QUEUES:
            with broker.channel() as channel:
                try:
                    lengths[name] = channel.queue_declare(name, passive=True).message_count
                except ChannelError:
                    continue  # Redis has no empty queues
    return lengths


def outbox_lag() -> float:
    """Return the age of the oldest message that is pending, mails aside, in seconds."""
    pending = OutboxMessage.objects.filter(queue="", done=None, dead=None)
    age = ExpressionWrapper(Now() - F("created"), output_field=DurationField())
    with closing(connection):
        oldest = pending.order_by("created").values_list(age, flat=True).first()
    return oldest.total_seconds() if oldest else 0.0


SERVERS: Mapping[str, Callable[[], Any]] = {
    "database": ask_database,
    "redis": lambda: client().ping(),
    "broker": ask_broker,
}
"""Questions to the servers that the shop uses; an error is no answer."""


def live(request: HttpRequest) -> HttpResponse:
    """Answer 200: the process serves. Checks no server, so that an outage restarts no worker."""
    return HttpResponse("ok\n", content_type="text/plain")


_last: dict[str, tuple[float, int, bytes]] = {}


def ready(request: HttpRequest) -> HttpResponse:
    """Answer 200 if the database takes writes, without which nothing can be sold; otherwise 503.

    The shop sells without Redis and broker, and while the follow-up is late, so these make it
    `degraded` and take no replica out of service.
    """
    at, status, body = _last.get("ready", (0.0, 0, b""))
    if not status or time.monotonic() - at > MAX_AGE:
        status, body = _readiness()
        _last["ready"] = (time.monotonic(), status, body)
    return HttpResponse(body, status=status, content_type="application/json")


def _readiness() -> tuple[int, bytes]:
    answers = asked({**SERVERS, "outbox": outbox_lag})
    lag = answers["outbox"].value
    late = lag is not None and lag > LATE
    if answers["database"].error:
        status = "unready"
    elif late or any(answer.error for answer in answers.values()):
        status = "degraded"
    else:
        status = "ready"
    document = {
        "status": status,
        "servers": {name: answers[name].error or "ok" for name in SERVERS},
        "outbox_lag_seconds": lag,
    }
    return (503 if status == "unready" else 200), json.dumps(document).encode()
