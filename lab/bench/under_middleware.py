"""Settings for the empty view with all of the shop's middleware."""

from shop.settings import *  # noqa: F403

ROOT_URLCONF = "lab.bench.urls"
