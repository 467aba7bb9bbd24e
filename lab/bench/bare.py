"""Settings for the empty view alone: the ceiling."""

from shop.settings import *  # noqa: F403

ROOT_URLCONF = "lab.bench.urls"
MIDDLEWARE = []
