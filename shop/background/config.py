"""Celery's settings, under Celery's own names.

Tasks carry no data: the database knows the work, and a task only makes a worker look. The
broker may therefore lose, duplicate and delay tasks; these settings only make work start soon.
They suit Redis and RabbitMQ.
"""

from __future__ import annotations

from typing import Any

from celery.schedules import crontab
from kombu import Queue

from shop import environment

broker_url = environment.text("CELERY_BROKER_URL")
ON_REDIS = not broker_url.startswith(("amqp", "pyamqp"))

# --- What is sent -------------------------------------------------------------------------------
task_serializer = result_serializer = "json"
accept_content = ["json"]  # never pickle: a broker that others can write to runs code
timezone = "UTC"

# Metrics and log lines say how tasks ended. A result backend would store a key for each of a
# million runs.
task_ignore_result = True
# The backend that stores nothing may be shared. Else each thread that sends a task makes one, which
# took 3 % of a busy web process.
result_backend_thread_safe = True

# --- Tasks --------------------------------------------------------------------------------------
# Each task with its queue and the seconds between its sweeps. The sweeps make follow-up certain;
# notifications (shop/background/notify.py) make it fast.
TASKS: tuple[tuple[str, str, float], ...] = (
    ("shop.expire_due", "expiry", 1.0),
    ("shop.expire_orders", "expiry", 5.0),
    ("shop.settle_payments", "payments", 2.0),
    ("shop.follow_up", "followup", 2.0),
    ("shop.send_mails", "mail", 5.0),
    ("shop.stop_sales", "followup", 5.0),
    ("shop.audit", "books", 120.0),
    ("shop.clean_up", "books", 86_400.0),
)
if environment.switch("SHOP_DRAWS"):
    TASKS += (("shop.run_draws", "followup", 2.0),)
# One queue per urgency, so that each may have its own workers: unpaid units that other buyers wait
# for; money, which needs the provider; the follow-up of orders; mails, because a mail server may
# hang; and the audit, which reads everything.
QUEUES = tuple(dict.fromkeys(queue for _, queue, _ in TASKS))
# On RabbitMQ, a quorum queue survives the loss of a node; on a single server it is a durable queue.
# A worker then prefetches for each queue by itself. The type of an existing queue cannot change.
QUEUE_ARGUMENTS = {} if ON_REDIS else {"x-queue-type": "quorum"}
task_queues = [Queue(name, queue_arguments=QUEUE_ARGUMENTS) for name in QUEUES]
task_create_missing_queues = False  # a misspelt queue is an error, not a queue without workers
task_default_queue = "followup"
# A RabbitMQ node that has lost the others accepts messages without ever confirming them.
CONFIRM_TIMEOUT = 2.0
task_routes = {
    task: {"queue": queue, "confirm_timeout": CONFIRM_TIMEOUT} for task, queue, _ in TASKS
}
# No task has `expires`, `eta` or `countdown`: Celery writes them as a time of the sender's clock
# and the worker compares them with its own, so that a worker whose clock is ahead would discard
# every task. What would pile up without workers is not sent (shop/background/sending.py).
# On RabbitMQ, only a retry gives beat a new connection for a lost one, to the next node of the URL.
beat_schedule: dict[str, dict[str, Any]] = {
    task: {"task": task, "schedule": seconds, "options": {"retry": not ON_REDIS}}
    for task, _, seconds in TASKS
}
# At an hour and not after a time: a beat that is restarted more often would never get there.
beat_schedule["shop.clean_up"]["schedule"] = crontab(hour=3, minute=30)
beat_scheduler = "shop.background.beat:Beat"

# --- When a worker dies or stops ----------------------------------------------------------------
# Every task is idempotent, so a task whose worker died is run again. `acks_late` alone still
# acknowledges when the child process is killed.
task_acks_late = True
task_reject_on_worker_lost = True
worker_prefetch_multiplier = 1  # an idle worker cannot take what a busy one has prefetched
worker_cancel_long_running_tasks_on_connection_loss = True

# The soft limit raises in the task, which then fails normally; the hard limit kills the child, in
# case the code swallows the exception. Tasks work in slices of a second (background/tasks.py).
task_soft_time_limit = 45
task_time_limit = 60

# On SIGQUIT, a worker gives its running tasks this long and then returns them to the broker. The
# demo and Compose stop it so; set REMAP_SIGTERM=SIGQUIT where only SIGTERM can be sent. SIGTERM by
# itself waits for running tasks, and most supervisors kill the worker first.
worker_soft_shutdown_timeout = 3.0

# --- The broker ---------------------------------------------------------------------------------
# Redis only: after this long, another worker gets what a dead worker held. Longer than any task,
# far shorter than the default hour. kombu 5.7 reads the broker's options; the documentation asks
# for all three places, because the shortest value applies to all applications that share a Redis.
# RabbitMQ notices a closed connection.
VISIBILITY = 300
visibility_timeout = VISIBILITY
result_backend_transport_options = {"visibility_timeout": VISIBILITY}
broker_transport_options = (
    {
        "visibility_timeout": VISIBILITY,
        # A notification is sent during a purchase: a dead broker must not delay it by seconds.
        "socket_timeout": 5,
        "socket_connect_timeout": 1,
        "socket_keepalive": True,
    }
    if ON_REDIS
    # With confirms, "published" means that the server has the message.
    else {"confirm_publish": True}
)
broker_connection_timeout = 2
# RabbitMQ only, in seconds: a worker whose connection is silent for two of them takes another node.
broker_heartbeat = 10
broker_connection_retry_on_startup = True
broker_connection_max_retries = None  # no limit: the supervisor stops the worker
task_publish_retry = False  # the sweep is the retry
worker_hijack_root_logger = False
