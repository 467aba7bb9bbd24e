"""The settings that a shop needs for `inventory`."""

import os

import dj_database_url

SECRET_KEY = os.environ.get("SECRET_KEY", "of an example that signs nothing")
DATABASES = {"default": dj_database_url.parse(os.environ["DATABASE_URL"], conn_max_age=0)}
DATABASES["default"].setdefault("OPTIONS", {})["pool"] = True
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
INSTALLED_APPS = ["inventory", "concerts"]
ROOT_URLCONF = "concerts.urls"
ALLOWED_HOSTS = ["*"]
USE_TZ = True

REDIS_URL = os.environ["REDIS_URL"]
