"""Settings: an operation of the API that does nothing."""

from lab.settings import *  # noqa: F403

ROOT_URLCONF = "lab.bench.noop"
