"""The plain Django shop, served as our benchmark serves it."""

from loadtest.shops.peer import ENVIRONMENT, STEPS
from loadtest.shops.setup import Setup

SETUP = Setup(
    steps=STEPS,
    serve={
        "web": (
            "{python}",
            "-m",
            "gunicorn",
            "-c",
            "gunicorn.conf.py",
            "lab.bench.peers.django_shop",
        )
    },
    ready="/readyz",
    environment={**ENVIRONMENT, "DJANGO_SETTINGS_MODULE": "lab.bench.peers.django_settings"},
    folder="{repository}",
)
