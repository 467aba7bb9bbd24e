"""Settings of the plain Django shop. It has no middleware, which saves it a third of a request."""

import os

import dj_database_url

POOL = int(os.environ.get("DB_POOL_SIZE", "16"))

ROOT_URLCONF = "lab.bench.peers.django_shop"
ALLOWED_HOSTS = ["127.0.0.1"]
USE_TZ = True
DATABASES = {
    "default": {
        **dj_database_url.parse(os.environ["DATABASE_URL"]),
        "OPTIONS": {"pool": {"min_size": 1, "max_size": POOL, "timeout": 30}},
    }
}
