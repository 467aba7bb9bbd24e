"""This project's shop, as its documentation serves it: gunicorn, one Redis, the demo's calls."""

from loadtest.shops.setup import Setup

SETUP = Setup(
    steps=(("{python}", "manage.py", "migrate", "-v0"),),
    serve={"web": ("{python}", "-m", "gunicorn", "-c", "gunicorn.conf.py", "shop.wsgi")},
    ready="/readyz",
    environment={
        "SHOP_DEMO": "1",
        "DJANGO_SETTINGS_MODULE": "lab.settings",
        "DATABASE_URL": "{database}",
        "REDIS_URL": "{redis}",
        "CELERY_BROKER_URL": "{redis}",
        "SHOP_DATA": "{files}",
        "SHOP_PORT": "{port}",
        "WEB_CONCURRENCY": "{workers}",
        "METRICS_FOLDER": "",
    },
    folder="{repository}",
)
