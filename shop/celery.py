"""The Celery application: `celery -A shop worker`, `celery -A shop beat`."""

import os

from celery import Celery

from shop import environment

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "shop.settings")
environment.refuse_unsafe_start()

app = Celery("shop")
app.config_from_object("shop.background.config")
app.autodiscover_tasks(["shop.background"])
