"""Observe the tasks of this process: their log lines, their durations and failures."""

from __future__ import annotations

import time
from typing import Any

from celery.signals import task_failure, task_postrun, task_prerun
from django.db import connection

from inventory.metrics import metrics
from shop.operating import logs

_began: dict[str, float] = {}
_failed: set[str] = set()


def observe_tasks() -> None:
    """Observe every task that this process runs from now on."""
    task_prerun.connect(_begin)
    task_failure.connect(_fail)
    task_postrun.connect(_end)


def _begin(task_id: str, task: Any, **_: Any) -> None:
    logs.task.set((task.name, task_id))
    _began[task_id] = time.monotonic()


def _fail(task_id: str, **_: Any) -> None:
    # The parent of a killed child gets this signal too, but not the others.
    if task_id in _began:
        _failed.add(task_id)


def _end(task_id: str, task: Any, **_: Any) -> None:
    seconds = time.monotonic() - _began.pop(task_id, time.monotonic())
    outcome = "failed" if task_id in _failed else "done"
    _failed.discard(task_id)
    metrics.observe("task_seconds", seconds, task.name, outcome)
    if not connection.in_atomic_block:
        connection.close()  # return it to the pool; Celery may have cleaned up before this
