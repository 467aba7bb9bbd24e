"""Gunicorn's settings for the payment provider.

One worker, because it caches its behaviour; with gevent, one is enough.
"""

workers = 1
worker_class = "gevent"
worker_connections = 4000
backlog = 4096
keepalive = 75  # longer than the shop keeps a connection idle
timeout = 60
graceful_timeout = 1  # it may be killed at any point, and idle connections never end
accesslog = None
errorlog = "-"
control_socket_disable = True


def post_worker_init(worker: object) -> None:
    """Start the provider's threads in a new worker once Django is set up."""
    # Imported here: psycopg must not be loaded before gevent has patched the standard library.
    from lab.psp import worker as own
    from serving import psycopg_wait

    psycopg_wait.install()
    own.start()
