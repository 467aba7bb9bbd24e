"""Settings for the shop's own tests: plain HTTP, no secrets."""

from shop.settings import *  # noqa: F403

SECRET_KEY = "not a secret: the tests' own key, as long as Django wants it to be"
ALLOWED_HOSTS = ["127.0.0.1", "localhost"]
PSP_URL = "http://127.0.0.1:1"
PSP_KEY = PSP_WEBHOOK_SECRET = "not a secret"
PUBLIC_URL = "http://127.0.0.1:8000"

SHOP_RATE_LIMIT = 0

# A test's own transaction waits for as long as the machine is busy.
if DATABASES:  # noqa: F405
    DATABASES["default"]["OPTIONS"]["options"] += " -c idle_in_transaction_session_timeout=0"  # noqa: F405

# What a shop can do without is tested whether or not this one has it.
SHOP_PAGES = True
PAYMENT_PROVIDER = "shop.payments.http_provider.HttpProvider"
LANGUAGES = [("en", "English"), ("zh-hans", "简体中文")]
LANGUAGE_CODE = "en"
CURRENCY = "CNY"
TIME_ZONE = "UTC"
FEES = ""
INVOICES = True

STATIC_ROOT = None
WHITENOISE_USE_FINDERS = True
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"},
}

HTTPS = SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = SECURE_SSL_REDIRECT = False
SECURE_HSTS_SECONDS = 0
SECURE_PROXY_SSL_HEADER = None
