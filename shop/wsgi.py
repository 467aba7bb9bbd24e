"""The WSGI application: `gunicorn shop.wsgi`."""

from django.core.wsgi import get_wsgi_application

from shop import environment
from shop.operating import safe_start

environment.choose_settings()
safe_start.refuse_unsafe_start()

_pages = get_wsgi_application()  # sets Django up, which what follows needs

from shop.api.handler import ApiHandler  # noqa: E402
from shop.operating import error_reports, tracing  # noqa: E402

error_reports.start()
tracing.start("web")
application = tracing.traced(ApiHandler(_pages))
