"""The WSGI application: `gunicorn shop.wsgi`."""

from django.core.wsgi import get_wsgi_application
from django.urls import resolve

from shop import environment
from shop.operating import safe_start

environment.choose_settings()
safe_start.refuse_unsafe_start()

_pages = get_wsgi_application()  # sets Django up, which what follows needs

import shop.background.tasks  # noqa: E402, F401  # which the first purchase notifies
from shop.api.handler import ApiHandler  # noqa: E402
from shop.operating import telemetry  # noqa: E402

resolve("/livez")  # loads all views; else the first request does, and all others wait for it
telemetry.report_errors()
telemetry.trace("web")
application = telemetry.traced(ApiHandler(_pages))
