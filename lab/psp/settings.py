"""Django's settings of the payment provider: one page, no sessions, one database."""

from urllib.parse import urlsplit

import dj_database_url

from development.folder import kept_secret
from lab import environment

PSP_BEHAVIOUR_MAY_CHANGE = environment.switch("SHOP_DEMO")
DEBUG = False

PSP_KEY = environment.text("PSP_KEY") or (
    kept_secret("psp-key") if PSP_BEHAVIOUR_MAY_CHANGE else ""
)
PSP_WEBHOOK_SECRET = environment.text("PSP_WEBHOOK_SECRET") or (
    kept_secret("psp-webhook-secret") if PSP_BEHAVIOUR_MAY_CHANGE else ""
)
PSP_WEBHOOK_URL = environment.text("PSP_WEBHOOK_URL")
PSP_BEHAVIOUR = environment.text("PSP_BEHAVIOUR")

SECRET_KEY = PSP_KEY
ALLOWED_HOSTS = ["*"]  # clients authenticate by the key; no page depends on its address
INSTALLED_APPS = ["lab.psp"]
MIDDLEWARE: list[str] = []
ROOT_URLCONF = "lab.psp.urls"
TEMPLATES = [{"BACKEND": "django.template.backends.django.DjangoTemplates", "APP_DIRS": True}]
WSGI_APPLICATION = "lab.psp.wsgi.application"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
USE_TZ = True
TIME_ZONE = "UTC"

# By default, a database on the shop's server.
DATABASE_URL = environment.text("PSP_DATABASE_URL")
if not DATABASE_URL and environment.is_set("DATABASE_URL"):
    DATABASE_URL = urlsplit(environment.text("DATABASE_URL"))._replace(path="/psp").geturl()

DATABASES = {}
if DATABASE_URL:
    DATABASES["default"] = dj_database_url.parse(
        DATABASE_URL, engine="inventory.postgresql", conn_max_age=0
    )
    DATABASES["default"]["OPTIONS"] = {
        **DATABASES["default"].get("OPTIONS", {}),
        "pool": {
            "min_size": 1,
            "max_size": environment.number("DB_POOL_SIZE"),
            "timeout": 5,
            "reconnect_timeout": 5,
        },
        "connect_timeout": 5,
    }

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {
        "line": {"format": "{asctime} {levelname} {process} {name}: {message}", "style": "{"},
    },
    "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "line"}},
    "root": {"handlers": ["stderr"], "level": "WARNING"},
    # Answers such as 402 are outcomes; Django would log each one.
    "loggers": {
        "lab.psp": {"level": environment.text("LOG_LEVEL")},
        "django.request": {"level": "ERROR"},
    },
}
