"""What gunicorn serves: `gunicorn -c python:shop.psp.serving shop.psp.wsgi`."""

import os

from django.core.wsgi import get_wsgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "shop.psp.settings")

application = get_wsgi_application()
