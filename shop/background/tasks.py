"""Celery's tasks. Each does a bounded amount of the work that the database lists.

Tasks carry no data, so a task may be lost, duplicated or run by several workers at once. A failed
sweep is not retried: the next one follows within seconds. A message that fails within it has its
own attempts and pauses (`inventory/outbox.py`).
"""

from __future__ import annotations

import logging
import time
from typing import Any

from celery import Task
from celery.signals import (
    task_postrun,
    task_prerun,
    worker_init,
    worker_process_init,
    worker_process_shutdown,
)
from celery.states import FAILURE
from django.db import connection

from inventory import outbox
from shop import orders
from shop.audit import examine, raise_alerts
from shop.background import cleanup, expiry
from shop.background import follow_up as followup
from shop.background.notify import notifier
from shop.background.sending import ask_for
from shop.celery import app
from shop.mails import sending
from shop.operating import logs, metric_files, metrics, telemetry
from shop.operating.clock import clock
from shop.payments import recovery
from shop.staff import stopping

log = logging.getLogger(__name__)

_began: dict[str, float] = {}


@worker_init.connect
def _forget(**_: object) -> None:
    metric_files.forget()


@worker_process_init.connect
def observe(**_: object) -> None:
    """Publish what this worker process does: its metrics, traces and errors."""
    metric_files.begin("celery")
    notifier.begin()
    telemetry.report_errors()
    telemetry.trace("celery")


@worker_process_shutdown.connect
def _keep_metrics(**_: object) -> None:
    metric_files.process.keep()  # what was counted since it was last written


@task_prerun.connect
def _begin(task_id: str, task: Any, **_: Any) -> None:
    logs.task.set((task.name, task_id))
    _began[task_id] = time.monotonic()


@task_postrun.connect
def _end(task_id: str, task: Any, state: str, **_: Any) -> None:
    seconds = time.monotonic() - _began.pop(task_id, time.monotonic())
    outcome = "failed" if state == FAILURE else "done"
    metrics.TASK_SECONDS.labels(task.name, outcome).observe(seconds)
    if not connection.in_atomic_block:
        clock.ask()
        connection.close()  # return it to the pool; Celery may have cleaned up before this


SLICE = 1.0
"""Seconds after which a task yields to the others in the worker's queues and continues as a new
task: a backlog must not delay the release of unpaid units."""


@app.task(name="shop.follow_up")
def follow_up() -> int:
    """Deliver the outbox without its mails; return the number of messages done."""
    done = followup.deliver(SLICE)
    if outbox.due(sending.QUEUE):
        ask_for(send_mails)
    if done and outbox.due():
        ask_for(follow_up)
    return done


@app.task(name="shop.send_mails")
def send_mails() -> int:
    """Send mails of the outbox; return their number."""
    return _go_on(send_mails, sending.send_mails(SLICE))


@app.task(name="shop.settle_payments")
def settle_payments() -> int:
    """Ask the payment provider about pending payments and refunds."""
    return recovery.settle()


@app.task(name="shop.expire_due")
def expire_due() -> int:
    """Expire the due orders of the delay queue; return their number."""
    return _go_on(expire_due, expiry.expire_due(SLICE))


@app.task(name="shop.expire_orders")
def expire_orders() -> int:
    """Expire all orders past their deadline; return their number."""
    return _go_on(expire_orders, orders.expire(SLICE))


@app.task(name="shop.stop_sales")
def stop_sales() -> int:
    """Cancel and refund orders of stopped sales; return the number of messages done."""
    return _go_on(stop_sales, stopping.work(SLICE))


@app.task(name="shop.audit")
def audit() -> int:
    """Run the audit and raise alerts; return the number of open alerts."""
    return raise_alerts(examine())


@app.task(name="shop.clean_up")
def clean_up() -> None:
    """Delete what nobody needs any more; the log says how much."""
    log.info("cleaned up: %s", cleanup.clean_up())


def _go_on(task: Task, done: int) -> int:
    """Ask for a task again if it has done something; return how much."""
    if done:
        ask_for(task)
    return done


# Now, while no other thread has this module: at a task's first use Celery lists it before it is
# bound, and a second thread would find it unbound.
app.finalize()
