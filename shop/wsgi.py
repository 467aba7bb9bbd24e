"""The WSGI application: `gunicorn shop.wsgi`."""

from django.core.wsgi import get_wsgi_application

from shop import environment

environment.choose_settings()
environment.refuse_unsafe_start()

application = get_wsgi_application()
