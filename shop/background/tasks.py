"""Celery's tasks. Each does a bounded piece of what the database says is to be done.

None carries anything: which orders are due and which messages are open, the database knows. So a
task may be lost, doubled, or run by several workers at once, and nothing is lost or doubled. Nor
does a sweep try again when it fails: the next one does, a second or two later. What fails inside
it, a message or a mail, has its own attempts, pauses and end (``inventory/outbox.py``).
"""

from __future__ import annotations

import logging
import time

from celery import Task
from django.db import DatabaseError
from kombu.exceptions import OperationalError
from redis.exceptions import RedisError

from inventory import outbox
from shop import orders
from shop.audit import alerts, examine
from shop.background import expiry, task_log
from shop.background import follow_up as followup
from shop.celery import app
from shop.payments import recovery

log = logging.getLogger(__name__)

task_log.watch()

SLICE = 1.0
"""Seconds after which a task makes room for the others in the worker's queues, and goes on in a
new one: no backlog keeps unpaid units from those who wait for them."""


@app.task(name="shop.follow_up")
def follow_up() -> int:
    """Deliver the outbox; how many messages were done."""
    done = followup.deliver(SLICE)
    if done:
        _ask_for(send_mails)
    if done and outbox.due():
        _ask_for(follow_up)
    return done


@app.task(name="shop.send_mails")
def send_mails() -> int:
    """Send mails that are owed; how many were."""
    sent = 0
    end = time.monotonic() + SLICE
    while time.monotonic() < end and (some := followup.send_mails()):
        sent += some
    if sent:
        _ask_for(send_mails)
    return sent


@app.task(name="shop.settle_payments")
def settle_payments() -> int:
    """Ask the payment provider about what is pending with it."""
    return recovery.settle()


@app.task(name="shop.expire_due")
def expire_due() -> int:
    """Expire the orders that the delay queue says are due; how many were."""
    expired = expiry.expire_due(SLICE)
    if expired:
        _ask_for(expire_due)
    return expired


@app.task(name="shop.expire_orders")
def expire_orders() -> int:
    """Expire orders whose time to pay has passed; how many were."""
    expired = orders.expire(SLICE)
    if expired:
        _ask_for(expire_orders)
    return expired


@app.task(
    name="shop.audit",
    autoretry_for=(DatabaseError,),
    retry_backoff=2,
    retry_backoff_max=60,
    retry_jitter=True,
    max_retries=5,
)
def audit() -> int:
    """Compare everything and raise alerts; how many are open.

    Unlike the sweeps it comes rarely, so it tries again by itself when the database is away.
    """
    return alerts.raise_alerts(examine())


def _ask_for(task: Task) -> None:
    try:
        task.apply_async(retry=False, expires=10)
    except (OperationalError, RedisError, OSError) as error:
        log.warning("the broker does not answer (%s); the next sweep goes on", error)
