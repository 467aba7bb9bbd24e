"""The task log: one row per Celery task with its last run, for the demo's admin.

Simpler than a result backend, which stores a row or key per run: the sweeps alone run 150,000 times
per day.
"""

from __future__ import annotations

import logging
import time
from typing import Any

from celery.signals import task_failure, task_postrun, task_prerun
from django.db import Error, connection

log = logging.getLogger(__name__)

NOTE = """
INSERT INTO lab_run AS run
    (task, runs, failures, last, seconds, result, last_failure, error)
VALUES (%(task)s, 1, %(failed)s, now(), %(seconds)s, %(result)s,
        CASE WHEN %(failed)s = 1 THEN now() END, %(error)s)
ON CONFLICT (task) DO UPDATE SET
    runs = run.runs + 1,
    failures = run.failures + excluded.failures,
    last = excluded.last,
    seconds = excluded.seconds,
    result = excluded.result,
    last_failure = COALESCE(excluded.last_failure, run.last_failure),
    error = CASE WHEN excluded.failures = 1 THEN excluded.error ELSE run.error END
"""

_began: dict[str, float] = {}
_failed: dict[str, str] = {}


def watch() -> None:
    """Record every task that this process runs from now on."""
    task_prerun.connect(_begin)
    task_failure.connect(_fail)
    task_postrun.connect(_end)


def _begin(task_id: str, **_: Any) -> None:
    _began[task_id] = time.monotonic()


def _fail(task_id: str, exception: BaseException, **_: Any) -> None:
    # The parent of a killed child gets this signal too. It records nothing: the next child would
    # inherit a connection that the parent opened.
    if task_id in _began:
        _failed[task_id] = f"{type(exception).__name__}: {exception}"[:2000]


def _end(task_id: str, task: Any, retval: Any = None, **_: Any) -> None:
    seconds = time.monotonic() - _began.pop(task_id, time.monotonic())
    error = _failed.pop(task_id, "")
    note(task.name, seconds, result="" if error else str(retval), error=error)
    if not connection.in_atomic_block:
        connection.close()  # Celery may have cleaned up before this


def note(task: str, seconds: float, *, result: str = "", error: str = "") -> None:
    """Record the end of a task.

    Args:
        task: its name.
        seconds: its duration.
        result: its return value.
        error: why it failed; empty on success.
    """
    values: dict[str, str | float] = {
        "task": task,
        "seconds": seconds,
        "result": result[:200],
        "failed": 1 if error else 0,
        "error": error,
    }
    try:
        with connection.cursor() as cursor:
            cursor.execute(NOTE, values)
    except Error as problem:
        # The database is unreachable, and the task will have failed too.
        log.warning("the run of %s could not be recorded: %s", task, problem)
