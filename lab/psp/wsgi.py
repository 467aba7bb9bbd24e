"""The WSGI application: `gunicorn -c python:lab.psp.gunicorn_settings lab.psp.wsgi`."""

import os

from django.core.wsgi import get_wsgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "lab.psp.settings")

application = get_wsgi_application()
