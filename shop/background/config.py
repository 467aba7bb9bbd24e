"""Celery's settings, under Celery's own names.

Nothing that a task carries matters: the database knows what is to be done, and tasks only say
"look now". So the broker may lose, double and delay them, and these settings are about doing the
work soon, not about doing it at all. Works with Redis and with RabbitMQ alike.
"""

from __future__ import annotations

from kombu import Queue

from shop import environment

broker_url = environment.text("CELERY_BROKER_URL")
ON_REDIS = not broker_url.startswith(("amqp", "pyamqp"))

# --- What is sent -------------------------------------------------------------------------------
task_serializer = result_serializer = "json"
accept_content = ["json"]  # never pickle: a broker that others can write to runs code
timezone = "UTC"

# The state of tasks is in a table (shop/background/task_log.py): one row per task, which the admin
# shows.
# A result backend would keep a key for each of a million runs that nobody ever asks about.
task_ignore_result = True

# --- Queues -------------------------------------------------------------------------------------
# By how long they may wait, so that each may get workers of its own: unpaid units that others want
# to buy; money, for which the provider is asked; what follows an order; mails, for a mail server
# may hang; and the audit, which reads everything.
QUEUES = ("expiry", "payments", "followup", "mail", "books")
task_queues = [Queue(name) for name in QUEUES]
task_create_missing_queues = False  # a typing error is refused, not sent where nobody listens
task_default_queue = "followup"
task_routes = {
    "shop.expire_due": {"queue": "expiry"},
    "shop.expire_orders": {"queue": "expiry"},
    "shop.follow_up": {"queue": "followup"},
    "shop.settle_payments": {"queue": "payments"},
    "shop.send_mails": {"queue": "mail"},
    "shop.audit": {"queue": "books"},
}

# --- The schedule -------------------------------------------------------------------------------
# The sweeps make follow-up certain; notifications (shop/background/notify.py) only make it quick.
# A sweep that no worker has taken when the next one is sent is dropped.
beat_schedule = {
    name: {"task": task, "schedule": seconds, "options": {"expires": max(5.0, 2 * seconds)}}
    for name, task, seconds in (
        ("expire what is due", "shop.expire_due", 1.0),
        ("sweep unpaid orders", "shop.expire_orders", 5.0),
        ("follow up", "shop.follow_up", 2.0),
        ("settle payments", "shop.settle_payments", 2.0),
        ("send mails", "shop.send_mails", 5.0),
        ("compare everything", "shop.audit", 120.0),
    )
}
beat_scheduler = "shop.background.beat:OneBeat"
beat_max_loop_interval = 5  # how late a beat that stands by notices that the other is gone

# --- When a worker dies or stops ----------------------------------------------------------------
# Every task is idempotent, so one whose worker died is run again rather than lost. `acks_late`
# alone still acknowledges when the child process is killed.
task_acks_late = True
task_reject_on_worker_lost = True
worker_prefetch_multiplier = 1  # what waits in a busy worker's pocket, no idle one can take
worker_cancel_long_running_tasks_on_connection_loss = True

# The soft limit raises in the task, which then fails like any other; the hard one kills the child,
# for code that does not hear it. Tasks work in slices of a second (shop/background/tasks.py).
task_soft_time_limit = 45
task_time_limit = 60

# A worker that is told to stop by SIGQUIT gets this long for its running tasks and then hands them
# back to the broker. That is how the demo and Compose stop it; whoever can only send SIGTERM sets
# REMAP_SIGTERM=SIGQUIT. SIGTERM by itself waits for a task as long as that takes, and is followed
# by a SIGKILL where patience is shorter.
worker_soft_shutdown_timeout = 3.0

# --- The broker ---------------------------------------------------------------------------------
# Redis alone: after this long, what a dead worker held is given to another. Longer than any task
# may take, far shorter than the default hour. kombu 5.7 reads it from the broker's options; the
# documentation asks for all three places, since whoever has the shortest decides for all that share
# a Redis. RabbitMQ notices the death of the connection.
VISIBILITY = 300
visibility_timeout = VISIBILITY
result_backend_transport_options = {"visibility_timeout": VISIBILITY}
broker_transport_options = (
    {
        "visibility_timeout": VISIBILITY,
        # A notify runs beside a purchase: a dead broker may cost it a moment, not seconds.
        "socket_timeout": 5,
        "socket_connect_timeout": 1,
        "socket_keepalive": True,
    }
    if ON_REDIS
    # Published means that the server has it.
    else {"confirm_publish": True}
)
broker_connection_timeout = 2
broker_connection_retry_on_startup = True
broker_connection_max_retries = None  # for ever: whoever wants the worker gone stops it
task_publish_retry = False  # the sweep is the retry
worker_hijack_root_logger = False
