"""pretix as its guide for small-scale deployments says: gunicorn with five workers, and Celery."""

from loadtest.shops.setup import Setup

SETUP = Setup(
    python=("pretix==2026.8.0", "gunicorn==27.0.1"),
    steps=(
        ("mkdir", "-p", "data/media"),
        ("{python}", "-m", "pretix", "migrate", "-v0"),
        ("{python}", "seed.py"),
    ),
    serve={
        "web": (
            "{bin}/gunicorn",
            "pretix.wsgi",
            "--no-control-socket",
            "--workers",
            "{workers}",
            "--max-requests",
            "1200",
            "--max-requests-jitter",
            "50",
            "--bind",
            "127.0.0.1:{port}",
        ),
        "worker": ("{bin}/celery", "-A", "pretix.celery_app", "worker", "-l", "warning", "-c", "1"),
    },
    ready="/healthcheck/",
    environment={
        "DJANGO_SETTINGS_MODULE": "pretix.settings",
        "PRETIX_PRETIX_DATADIR": "{files}/data",
        "PRETIX_PRETIX_URL": "http://127.0.0.1:{port}",
        "PRETIX_DATABASE_BACKEND": "postgresql",
        "PRETIX_DATABASE_NAME": "{db_name}",
        "PRETIX_DATABASE_USER": "{db_user}",
        "PRETIX_DATABASE_PASSWORD": "{db_password}",
        "PRETIX_DATABASE_HOST": "{db_host}",
        "PRETIX_DATABASE_PORT": "{db_port}",
        "PRETIX_REDIS_LOCATION": "{redis}",
        "PRETIX_REDIS_SESSIONS": "true",
        "PRETIX_CELERY_BACKEND": "{redis}",
        "PRETIX_CELERY_BROKER": "{redis}",
        "PRETIX_MAIL_PORT": "9",  # mails are written and go nowhere
    },
)
