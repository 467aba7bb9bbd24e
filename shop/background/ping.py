"""Ping a Celery worker."""

from __future__ import annotations

import redis
from celery import Celery
from kombu.exceptions import OperationalError


def worker_answers(broker: str, node: str) -> bool:
    """Return whether the Celery worker `node` answers a ping through the broker at URL `broker`."""
    with Celery(set_as_current=False) as app:
        # Not `Celery(broker=…)`: the variable CELERY_BROKER_URL would override it, and this process
        # may use another broker than the worker.
        app.conf.update(broker_read_url=broker, broker_write_url=broker)
        try:
            return bool(app.control.ping(destination=[node], timeout=1))
        except (OperationalError, redis.RedisError, OSError):
            return False
