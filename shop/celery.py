"""The Celery application: `celery -A shop worker`, `celery -A shop beat`."""

from pathlib import Path
from typing import Any

from celery import Celery
from celery.signals import heartbeat_sent

from shop import environment
from shop.operating import safe_start

environment.choose_settings()
safe_start.refuse_unsafe_start()

app = Celery("shop")
app.config_from_object("shop.background.config")
app.autodiscover_tasks(["shop.background"])
if environment.switch("SHOP_DRAWS"):
    app.autodiscover_tasks(["shop.draws"])


def _show_that_it_is_alive(**_: Any) -> None:
    """Touch the file that health checks look at; without the broker there is no heartbeat."""
    if path := environment.text("ALIVE_FILE"):
        Path(path).touch()


heartbeat_sent.connect(_show_that_it_is_alive)
