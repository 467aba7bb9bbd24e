"""Settings of the plain Django shop. It has no middleware, which saves it a third of a request."""

import os

import dj_database_url

ROOT_URLCONF = "lab.bench.peers.django_shop"
ALLOWED_HOSTS = ["127.0.0.1"]
USE_TZ = True
DATABASES = {
    "default": {
        **dj_database_url.parse(os.environ["DATABASE_URL"]),
        "OPTIONS": {"pool": {"min_size": 1, "max_size": 16, "timeout": 30}},
    }
}
