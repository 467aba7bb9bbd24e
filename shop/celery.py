"""The Celery application: `celery -A shop worker`, `celery -A shop beat`."""

from celery import Celery

from shop import environment
from shop.operating import safe_start

environment.choose_settings()
safe_start.refuse_unsafe_start()

app = Celery("shop")
app.config_from_object("shop.background.config")
app.autodiscover_tasks(["shop.background"])
if environment.switch("SHOP_DRAWS"):
    app.autodiscover_tasks(["shop.draws"])
