"""Webhook events: an outbox, and a thread that sends each event until the shop accepts it.

An event is written in the transaction that causes it. Before each attempt the next one is
scheduled, so that an event is due again if the sender dies.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from threading import Event as Bell
from typing import Any

import urllib3
from django.conf import settings
from django.db import connection, transaction
from django.db.models import F
from django.db.models.functions import Now

from lab.psp import behaviour
from lab.psp.models import Event, event_id

AT_ONCE = 64
"""Events claimed per statement."""

SENDERS = 16
"""Threads that send events."""

TIMEOUT = 5.0
"""Seconds to wait for the shop."""

# The first pause exceeds the time of a send. A real provider pauses for up to hours; in a
# demonstration, people wait for the recovery after a fault.
CLAIM = """
UPDATE psp_event
SET attempts = attempts + 1, due = now() + least(0.25 * 2 ^ least(attempts, 10), 5) * interval '1 s'
WHERE id IN (
    SELECT id FROM psp_event WHERE remaining > 0 AND due <= now()
    ORDER BY due LIMIT %s FOR UPDATE SKIP LOCKED
)
RETURNING id, body
"""

bells: list[Bell] = []
"""Rung after a commit that leaves work to do; without a ring, polling finds it a little later."""


def emit(kind: str, order: int, document: dict[str, Any]) -> None:
    """Add an event to the outbox in this transaction."""
    now = behaviour.current()
    if not now.webhook_url:
        return
    pk = event_id()
    body = {"id": pk, "type": kind, "created": int(time.time()), "data": document}
    wait = timedelta(milliseconds=now.shuffle * now.draw("shuffle", order, kind))
    Event.objects.create(
        id=pk, body=json.dumps(body), remaining=max(now.copies, 1), due=Now() + wait
    )
    ring_when_committed()


def ring_when_committed() -> None:
    """Wake the worker threads after the commit."""
    transaction.on_commit(_ring)


def send_due(senders: ThreadPoolExecutor, client: urllib3.PoolManager) -> int:
    """Send due events; return how many."""
    with connection.cursor() as cursor:
        cursor.execute(CLAIM, [AT_ONCE])
        claimed = cursor.fetchall()
    connection.close()  # return it to the pool during the wait for the shop
    url = behaviour.current().webhook_url
    taken = senders.map(lambda event: _send(client, url, event[1]), claimed)
    delivered = [pk for (pk, _), done in zip(claimed, taken, strict=True) if done]
    # The next copy, if any, is sent at the time set above.
    Event.objects.filter(pk__in=delivered).update(remaining=F("remaining") - 1)
    return len(claimed)


def _ring() -> None:
    for bell in bells:
        bell.set()


def signature(body: bytes, now: int) -> str:
    """Return the signature header of `body`, with its time."""
    signed = b"%d.%s" % (now, body)
    digest = hmac.new(settings.PSP_WEBHOOK_SECRET.encode(), signed, hashlib.sha256)
    return f"t={now},v1={digest.hexdigest()}"


def _send(client: urllib3.PoolManager, url: str, text: str) -> bool:
    """Send an event; tell whether the shop accepted it with a 2xx."""
    if not url:  # it was unset after the event was written
        return False
    body = text.encode()
    headers = {
        "Content-Type": "application/json",
        "PSP-Signature": signature(body, int(time.time())),
    }
    try:
        answer = client.request(
            "POST", url, body=body, headers=headers, timeout=TIMEOUT, retries=False
        )
    except urllib3.exceptions.HTTPError:
        return False
    return 200 <= answer.status < 300
