"""The WSGI application: `gunicorn shop.wsgi`."""

import os

from django.core.wsgi import get_wsgi_application

from shop import environment

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "shop.settings")
environment.refuse_unsafe_start()

application = get_wsgi_application()
