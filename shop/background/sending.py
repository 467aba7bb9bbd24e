"""Send tasks to Celery's queues, but no more than its workers can use.

Tasks carry no data, so a queue in which many of them wait gains nothing by one more. They do not
expire either: Celery would compare the sender's clock with the worker's. Each sender therefore
counts what waits in the queue first, and leaves its task out when that is enough. Otherwise an hour
without workers would fill the broker's memory.
"""

from __future__ import annotations

import logging
from typing import Any

from celery import Task
from kombu import Producer
from kombu.exceptions import OperationalError
from redis.exceptions import RedisError

from shop.background.config import QUEUE_ARGUMENTS

log = logging.getLogger(__name__)

ENOUGH_TO_CONTINUE = 10
"""Waiting tasks of a queue from which nobody asks for one more."""

ENOUGH_SWEEPS = 200
"""Waiting tasks of a queue from which beat sends no sweep. Higher, so that tasks which ask for
their own continuation do not keep the sweeps of the same queue out; and higher than the number from
which the alert `TasksQueue` fires."""


def waiting(producer: Producer, queue: str) -> int:
    """Return how many tasks wait in a queue of the broker.

    Raises:
        OperationalError: the broker does not answer.
    """
    connection = producer.connection
    try:
        # Not passive: on RabbitMQ a missing queue would close the channel, and on Redis an empty
        # queue is a missing one.
        declared = producer.channel.queue_declare(
            queue,
            durable=True,
            exclusive=False,
            auto_delete=False,
            arguments=QUEUE_ARGUMENTS or None,
        )
    except (*connection.connection_errors, *connection.channel_errors) as error:
        raise OperationalError(str(error)) from error
    return int(declared.message_count)


def ask_for(task: Task) -> bool:
    """Ask for a run of a task now, unless enough tasks wait in its queue.

    Returns:
        Whether the broker answered. If it did not, the next sweep does the work.
    """
    queue: Any = task.app.conf.task_routes[task.name]["queue"]
    try:
        with task.app.producer_or_acquire() as producer:
            if waiting(producer, queue) < ENOUGH_TO_CONTINUE:
                task.apply_async(producer=producer, retry=False)
    except (OperationalError, RedisError, OSError) as error:
        log.warning("the broker does not answer (%s); the next sweep continues", error)
        return False
    return True
