"""Settings: the view that does nothing, alone. The ceiling."""

from shop.settings import *  # noqa: F403

ROOT_URLCONF = "lab.bench.urls"
MIDDLEWARE = []
