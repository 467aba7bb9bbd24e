"""The provider's threads: one settles pending operations, one sends webhook events.

They run in the serving process and keep no state: the database holds the work.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from threading import Event, Thread

import urllib3
from django.db import Error, connection

from lab.psp import events, money

log = logging.getLogger(__name__)

LOOK = 0.5
"""Seconds between polls without a ring and without due work."""

LEAST = 0.01
"""Minimum seconds between polls even if work is due: another worker may be doing it."""

NEXT_CAPTURE = """
SELECT extract(epoch FROM min(due) - clock_timestamp()) FROM (
    SELECT due FROM psp_intent WHERE status = 'processing'
    UNION ALL SELECT due FROM psp_refund WHERE status = 'pending'
) AS pending
"""
NEXT_EVENT = """
SELECT extract(epoch FROM min(due) - clock_timestamp()) FROM psp_event WHERE remaining > 0
"""


def start() -> None:
    """Start both threads in this process."""
    senders = ThreadPoolExecutor(events.SENDERS, thread_name_prefix="sender")
    client = urllib3.PoolManager(maxsize=events.SENDERS)
    _start("settler", money.settle, NEXT_CAPTURE)
    _start("sender", partial(events.send_due, senders, client), NEXT_EVENT)


def _start(name: str, work: Callable[[], int], upcoming: str) -> None:
    bell = Event()
    events.bells.append(bell)
    Thread(target=_run, args=(bell, work, upcoming), name=name, daemon=True).start()


def _run(bell: Event, work: Callable[[], int], upcoming: str) -> None:
    while True:
        wait = LOOK
        try:
            if work():
                continue
            wait = _seconds_until(upcoming)
        except Error:
            log.warning("the database failed; will try again", exc_info=True)
        except Exception:  # nothing would restart this thread
            log.exception("failed; will try again")
        finally:
            connection.close()
        bell.wait(wait)
        bell.clear()


def _seconds_until(upcoming: str) -> float:
    with connection.cursor() as cursor:
        cursor.execute(upcoming)
        (seconds,) = cursor.fetchone()
    return LOOK if seconds is None else min(max(float(seconds), LEAST), LOOK)
