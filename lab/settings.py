"""The shop's settings with the demo's overlay: random secrets, plain HTTP on 127.0.0.1, the lab.

`shop.environment.choose_settings` selects them if `SHOP_DEMO=1`.
"""

from lab import environment as demo
from lab.stack.folder import kept_secret
from shop.settings import *  # noqa: F403
from shop.settings import INSTALLED_APPS, LOGGING, TEMPLATES

DATA_DIR = demo.data_folder()

# The lab before the course, whose pages get the shop's frame (lab/templates/course/base.html).
INSTALLED_APPS = [*INSTALLED_APPS, "lab", "course"]
ROOT_URLCONF = "lab.urls"
# Templates that extend the shop's of the same name.
TEMPLATES = [{**TEMPLATES[0], "DIRS": [demo.PROJECT / "lab/demo/templates"]}]
LOGGING = {
    **LOGGING,
    "loggers": {**LOGGING["loggers"], "lab": {"level": demo.text("LOG_LEVEL")}},
}

# Secrets are kept in the data folder, so that logins and buyer tokens survive a restart.
SECRET_KEY = demo.text("SECRET_KEY") or kept_secret("secret-key")
ALLOWED_HOSTS = demo.names("ALLOWED_HOSTS") or ["127.0.0.1", "localhost"]
PSP_URL = demo.text("PSP_URL") or f"http://127.0.0.1:{demo.PSP_PORT}"
PSP_KEY = demo.text("PSP_KEY") or kept_secret("psp-key")
PSP_WEBHOOK_SECRET = demo.text("PSP_WEBHOOK_SECRET") or kept_secret("psp-webhook-secret")
PUBLIC_URL = demo.text("PUBLIC_URL").rstrip("/") or (f"http://127.0.0.1:{demo.number('SHOP_PORT')}")

# The lab turns the guard off itself: see lab/apps.py.
LAB_GUARD = "guard" in demo.names("INVENTORY_FEATURE_FLAGS")
INVENTORY_FEATURE_FLAGS = [
    name for name in demo.names("INVENTORY_FEATURE_FLAGS") if name != "guard"
]
LAB_FAILPOINTS = demo.text("SHOP_FAILPOINTS")
LAB_SABOTAGE = demo.text("LAB_SABOTAGE")
LAB_RECORDING = demo.text("LAB_RECORDING")

# A load test uses few tokens for thousands of buyers, so the demo has no rate limit by default.
SHOP_RATE_LIMIT = demo.number("RATE_LIMIT") if demo.is_set("RATE_LIMIT") else 0

# Each sale has a strategy, also one that oversells.
INVENTORY_SELLER = "lab.strategies.by_sale.BySale"
SHOP_ALLOW_UNSAFE_STRATEGIES = True

# Where the page of the control room finds its process; without one there is no such page.
ROOM_URL = demo.text("ROOM_URL")

# Where Locust's page is, for the stage; empty: it does not run.
LOCUST_URL = demo.text("LOCUST_URL")

# Where the mail server keeps what it takes; proofs read there (lab/mail_server.py).
MAIL_FOLDER = DATA_DIR / "mail"

# Static files are served from their source folders: no collecting, no stale copies.
STATIC_ROOT = None
STATICFILES_DIRS = [("replay", str(demo.PROJECT / "loadtest" / "replay" / "player"))]
WHITENOISE_USE_FINDERS = True
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"},
}

HTTPS = SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = SECURE_SSL_REDIRECT = False
SECURE_HSTS_SECONDS = 0
SECURE_HSTS_INCLUDE_SUBDOMAINS = SECURE_HSTS_PRELOAD = False
SECURE_PROXY_SSL_HEADER = None
