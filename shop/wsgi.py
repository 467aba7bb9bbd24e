"""The WSGI application: `gunicorn shop.wsgi`."""

from importlib import import_module

from django.conf import settings
from django.core.wsgi import get_wsgi_application

from shop import environment
from shop.operating import safe_start

environment.choose_settings()
safe_start.refuse_unsafe_start()

_pages = get_wsgi_application()  # sets Django up, which what follows needs

import shop.background.tasks  # noqa: E402, F401  # which the first purchase notifies
from shop.api.handler import ApiHandler  # noqa: E402
from shop.operating import telemetry  # noqa: E402

import_module(settings.ROOT_URLCONF)  # else the first request loads all views, and all others wait
telemetry.report_errors()
application = ApiHandler(_pages)
