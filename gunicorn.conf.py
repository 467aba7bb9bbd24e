"""gunicorn's settings, for the demo and for production alike.

Worker class: on a no-op view gevent answered as many requests as gthread and held thousands of
idle connections in one process, where threads would need one each. A purchase waits most of its
time for others of its batch, which costs a greenlet next to nothing.
"""

import gc
import os
from typing import Any

from gunicorn.glogging import Logger

from serving.open_files import raise_open_files
from shop import environment
from shop.operating import logs, metric_files

environment.choose_settings()

raise_open_files()  # in the master, before it forks: the workers inherit it

bind = environment.authority(environment.text("SHOP_BIND"), environment.number("SHOP_PORT"))
workers = environment.number("WEB_CONCURRENCY")
worker_class = "serving.worker.Worker"  # gevent
# Before it listens: a new replica refuses until it can answer. gunicorn's own gevent worker patches
# the standard library too late for that; another class must do it in `setup`, as this one.
preload_app = True
worker_connections = environment.number("WEB_CONNECTIONS")
# Thousands connect in the same second at the opening; the kernel cuts this to its own limit.
backlog = 4096
# Longer than the reverse proxy's idle time-out (5 s in docker/nginx), so that the proxy closes an
# idle connection and no request meets one that gunicorn is closing. It also limits the sending of
# an answer. A request that has begun has less time to arrive: WEB_READ_TIMEOUT.
keepalive = 75
# Seconds without a sign of life until the master kills a worker. A paused worker (see the faults of
# the proof) must come back as itself and find its lease lost, not be replaced.
timeout = 60
# A worker that is to stop answers with `Connection: close`. Longer than the proxy's idle
# time-out, so that by the end the proxy has closed every connection that it did not use.
graceful_timeout = 10
max_requests = 0  # no worker is replaced in the middle of a sale
accesslog = None
errorlog = "-"
control_socket_disable = True


class ShopLogger(Logger):
    """gunicorn's own lines, in the shop's format.

    A class, since gunicorn writes a line per request as soon as ``logconfig_dict`` is set.
    """

    def setup(self, cfg: object) -> None:
        """Set the formatter."""
        super().setup(cfg)
        if logs.formatter() is logs.FORMATTERS["json"]:
            for handler in self.error_log.handlers:
                handler.setFormatter(logs.Json())


logger_class = ShopLogger


def is_gevent(worker: object) -> bool:
    """Return whether a worker is `serving`'s, rather than of a class that `-k` names."""
    return hasattr(worker, "lane")


def on_starting(server: object) -> None:
    """In the master, before there are workers."""
    metric_files.forget()


def post_fork(server: object, worker: object) -> None:
    """In a new worker, before it serves."""
    if environment.text("SHOP_SERVES") == "pages":
        os.nice(10)  # on a machine that both share, rendering leaves the processor to purchases
    if is_gevent(worker):
        worker.lane = "/api/"
        worker.read_timeout = environment.number("WEB_READ_TIMEOUT")


def child_exit(server: object, worker: Any) -> None:
    """In the master, after a worker has ended or was killed."""
    metric_files.end(worker.pid, "web")


def post_worker_init(worker: Any) -> None:
    """In a new worker, when it is about to serve."""
    from shop.operating import telemetry  # not above: gevent has not patched the library by then

    if is_gevent(worker):
        from serving.desk import Desk, Full
        from serving.turns import Turns
        from shop import shares
        from shop.accounts import hashing

        shares.turns = Turns()
        hashing.desk, hashing.full = Desk(), Full
    from shop.background.notify import notifier

    metric_files.begin("web")
    # Here and not in shop/wsgi.py, which the master loads: its thread would not outlive the fork.
    telemetry.trace("web")
    worker.wsgi = telemetry.traced(worker.wsgi)
    notifier.begin()
    # What is there now stays. Without this, the collector looks through all of it in the middle of
    # a sale, for some 50 ms, and whoever waits is among the slowest.
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000)
