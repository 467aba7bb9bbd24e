"""What a shop needs to say to use `inventory`."""

import os

import dj_database_url

SECRET_KEY = os.environ.get("SECRET_KEY", "of an example that signs nothing")
DATABASES = {"default": dj_database_url.parse(os.environ["DATABASE_URL"])}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
INSTALLED_APPS = ["inventory", "concerts"]
ROOT_URLCONF = "concerts.urls"
ALLOWED_HOSTS = ["*"]
USE_TZ = True

REDIS_URL = os.environ["REDIS_URL"]
INVENTORY_MAX_BATCH = 256
INVENTORY_MAX_WAITING = 5000
INVENTORY_MAX_WAIT = 10
