"""The shop's settings for a development machine: random secrets, plain HTTP on 127.0.0.1.

`shop.environment.choose_settings` selects them if `SHOP_DEMO=1`.
"""

from development.environment import PSP_PORT
from development.folder import provider_address, secret
from shop import environment
from shop.settings import *  # noqa: F403
from shop.settings import INSTALLED_APPS, PAYMENT_PROVIDER

INSTALLED_APPS = [*INSTALLED_APPS, "development"]

# Secrets are kept in the data folder, so that logins and buyer tokens survive a restart.
SECRET_KEY = secret("SECRET_KEY")
ALLOWED_HOSTS = environment.names("ALLOWED_HOSTS") or ["127.0.0.1", "localhost"]
PUBLIC_URL = environment.text("PUBLIC_URL").rstrip("/") or (
    f"http://127.0.0.1:{environment.number('SHOP_PORT')}"
)

PSP_KEY, PSP_WEBHOOK_SECRET = secret("PSP_KEY"), secret("PSP_WEBHOOK_SECRET")
if environment.PROVIDERS["http"] == PAYMENT_PROVIDER and not environment.is_set("PSP_URL"):
    # The fake payment provider, which may run beside this process. Where it does not, the money of
    # a payment is unknown, and the audit says that it could not compare it.
    PSP_URL = provider_address() or f"http://127.0.0.1:{PSP_PORT}"

# A load test uses few tokens for thousands of buyers, so there is no rate limit by default.
SHOP_RATE_LIMIT = environment.number("RATE_LIMIT") if environment.is_set("RATE_LIMIT") else 0

# Static files are served from their source folders: no collecting, no stale copies.
STATIC_ROOT = None
WHITENOISE_USE_FINDERS = True
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"},
}

HTTPS = SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = SECURE_SSL_REDIRECT = False
SECURE_HSTS_SECONDS = 0
SECURE_HSTS_INCLUDE_SUBDOMAINS = SECURE_HSTS_PRELOAD = False
SECURE_PROXY_SSL_HEADER = None
