"""An oscar shop. `GUARDED=0` runs it as django-oscar is installed, on the same database tables.

PostgreSQL is found by its usual variables (`PGHOST`, `PGUSER` and so on).
"""

import os
from pathlib import Path

from oscar import INSTALLED_APPS as OSCAR_APPS
from oscar.defaults import *  # noqa: F403

GUARDED = os.environ.get("GUARDED", "1") == "1"
FORKS = {
    "oscar.apps.order.apps.OrderConfig": "forks.order.apps.OrderConfig",
    "oscar.apps.partner.apps.PartnerConfig": "forks.partner.apps.PartnerConfig",
}
SECRET_KEY = "an example, not a secret"
ALLOWED_HOSTS = ["127.0.0.1", "localhost", "testserver"]
INSTALLED_APPS = [
    *(FORKS.get(app, app) if GUARDED else app for app in OSCAR_APPS),
    "rest_framework",
    "oscarapi",
    "inventory",
    *(["guarded"] if GUARDED else []),
]
# The forks add no columns, so oscar's migrations stay the only ones of its tables.
MIGRATION_MODULES = {
    "order": "oscar.apps.order.migrations",
    "partner": "oscar.apps.partner.migrations",
}
DATABASES = {
    "default": {
        "ENGINE": "inventory.postgresql",
        "NAME": os.environ.get("PGDATABASE", "oscar"),
        "OPTIONS": {"pool": {"max_size": 32}, "commit_within": 5},
    }
}
# No Redis for locks of items: each order locks its stock records' rows, as in oscar.
SILENCED_SYSTEM_CHECKS = ["inventory.W003"]
MIDDLEWARE = [
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "oscar.apps.basket.middleware.BasketMiddleware",
]
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "oscar.core.context_processors.metadata",
            ]
        },
    }
]
AUTHENTICATION_BACKENDS = ["oscar.apps.customer.auth_backends.EmailBackend"]
HAYSTACK_CONNECTIONS = {"default": {"ENGINE": "haystack.backends.simple_backend.SimpleEngine"}}
ROOT_URLCONF = "project.urls"
SITE_ID = 1
STATIC_URL = "/static/"
STATIC_ROOT = Path(__file__).parent.parent / ".data" / "static"
USE_TZ = True

DEFAULT_AUTO_FIELD = "django.db.models.AutoField"
