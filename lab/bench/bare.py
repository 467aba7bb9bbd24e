"""Settings: a view of Django that does nothing, without middleware, under plain gunicorn."""

from lab.settings import *  # noqa: F403

ROOT_URLCONF = "lab.bench.noop"
MIDDLEWARE = []
