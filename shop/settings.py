"""Django's production settings, from the environment (`shop/environment.py` lists the variables).

No secret has a default, and pages are served over HTTPS.
"""

from pathlib import Path
from typing import Any

import dj_database_url

from shop import environment
from shop.operating import logs, metric_files

metric_files.install()  # before any metric is made

BASE_DIR = environment.PROJECT

DEBUG = False

SECRET_KEY = environment.text("SECRET_KEY")
ALLOWED_HOSTS = environment.names("ALLOWED_HOSTS")
CSRF_TRUSTED_ORIGINS = environment.names("CSRF_TRUSTED_ORIGINS")

INSTALLED_APPS = [
    "shop.operating.admin_app.AdminConfig",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    # The second factor of staff.
    "django_otp",
    "django_otp.plugins.otp_totp",
    "django_otp.plugins.otp_static",
    "drf_spectacular_sidecar",  # only for its static files: the API documentation's page
    "inventory",
    "own",  # before the shop, whose templates and texts it may replace
    "shop.accounts",
    "shop",
]
if environment.switch("SHOP_DRAWS"):
    INSTALLED_APPS.append("shop.draws")

AUTH_USER_MODEL = "accounts.User"

MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "shop.operating.headers.security_headers",
    "serving.bodies.whole_bodies",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    # For pages: calls of the API pass these by (shop/api/handler.py), but not what you add.
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.locale.LocaleMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "shop.pages.refusals.Busy",
    "shop.pages.refusals.BadQuery",
]

# Whether staff give a code with their password (shop/operating/second_factor.py).
STAFF_SECOND_FACTOR = environment.switch("SHOP_STAFF_SECOND_FACTOR")
if STAFF_SECOND_FACTOR:
    after = MIDDLEWARE.index("django.contrib.auth.middleware.AuthenticationMiddleware") + 1
    MIDDLEWARE.insert(after, "django_otp.middleware.OTPMiddleware")
# The name that the app shows.
OTP_TOTP_ISSUER = environment.text("SHOP_NAME")

# HSTS for subdomains and preloading is the operator's decision (HSTS_SUBDOMAINS, HSTS_PRELOAD).
SILENCED_SYSTEM_CHECKS = ["security.W005", "security.W021"]

ROOT_URLCONF = "shop.urls"
WSGI_APPLICATION = "shop.wsgi.application"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

TEMPLATES: list[dict[str, Any]] = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        # Before those of Django's admin, which they extend.
        "DIRS": [environment.PROJECT / "shop/operating/templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ],
        },
    },
]

# --- Database -----------------------------------------------------------------------------------
# Without a URL there is no database (Django's dummy backend), so commands such as `check` and
# `makemigrations` connect to none. `manage.py` requires the URL for the others.
DATABASES = {}
if environment.is_set("DATABASE_URL"):
    DATABASES["default"] = dj_database_url.parse(
        environment.text("DATABASE_URL"),
        engine="inventory.postgresql",  # drops the pool's dead connections
        conn_max_age=0,
    )
    DATABASES["default"]["OPTIONS"] = {
        # A web node that dies with its machine in the middle of a transaction ends no session: the
        # server would keep its row locks, and nobody could buy. Sending a mail has a limit of
        # its own (shop/mails/sending.py).
        # And behind a transaction whose commit waits for a standby (inventory/postgresql/base.py),
        # others give up after a while. What the operator sets in PGOPTIONS comes last.
        "options": "-c idle_in_transaction_session_timeout=15s -c lock_timeout=10s "
        + environment.text("PGOPTIONS"),
        "commit_within": environment.number("DB_COMMIT_SECONDS"),
        **DATABASES["default"].get("OPTIONS", {}),
        # One pool per process. processes x max_size must stay below the server's max_connections:
        # 2 web + 3 Celery + 1 beat = 6 x 16 = 96 < 200.
        # `timeout`: seconds that a request waits for a free connection before it is refused.
        "pool": {
            "min_size": environment.number("DB_POOL_MIN"),
            "max_size": environment.number("DB_POOL_SIZE"),
            "timeout": 5,
            # Reconnect every few seconds after a server restart, not every few minutes.
            "reconnect_timeout": 5,
        },
        "connect_timeout": 5,
        # Where packets vanish (a dead host, a split network), the kernel would wait for a quarter
        # of an hour: for an acknowledgement (milliseconds), and on a connection that only listens.
        "tcp_user_timeout": 3000,
        "keepalives_idle": 2,
        "keepalives_interval": 1,
        "keepalives_count": 3,
    }

REDIS_URL = environment.text("REDIS_URL")

# The payment provider's class (see `shop/payments/provider.py`); none: orders need no payment.
PAYMENT_PROVIDER = environment.payment_provider() if environment.switch("SHOP_PAYMENTS") else ""
PSP_URL = environment.text("PSP_URL")
PSP_KEY = environment.text("PSP_KEY")
PSP_PUBLIC_KEY = environment.text("PSP_PUBLIC_KEY")
WECHAT_MERCHANT = environment.text("WECHAT_MERCHANT")
WECHAT_APP = environment.text("WECHAT_APP")
WECHAT_CERTIFICATE = environment.text("WECHAT_CERTIFICATE")
WECHAT_PRIVATE_KEY = environment.text("WECHAT_PRIVATE_KEY")
WECHAT_PUBLIC_KEY = environment.text("WECHAT_PUBLIC_KEY")
WECHAT_PUBLIC_KEY_ID = environment.text("WECHAT_PUBLIC_KEY_ID")
PSP_WEBHOOK_SECRET = environment.text("PSP_WEBHOOK_SECRET")

# --- Stock --------------------------------------------------------------------------------------
INVENTORY_REDIS = "shop.redis.client"
INVENTORY_MAX_BATCH = environment.number("INVENTORY_MAX_BATCH")
INVENTORY_MAX_WAITING = environment.number("INVENTORY_MAX_WAITING")
INVENTORY_MAX_WAIT = environment.number("INVENTORY_MAX_WAIT")

# --- The shop -----------------------------------------------------------------------------------
SHOP_NAME = environment.text("SHOP_NAME")
SHOP_RATE_LIMIT = environment.number("RATE_LIMIT")
SHOP_PAGES = environment.switch("SHOP_PAGES")
# What this web process serves. Rendering a page would keep the purchases of its process waiting.
SHOP_SERVES = environment.one_of("SHOP_SERVES", ("all", "api", "pages"))
TRUSTED_PROXIES = environment.number("TRUSTED_PROXIES")

CURRENCY = environment.text("SHOP_CURRENCY")

# Whether paid orders and refunds get numbers without gaps (shop/orders/invoices.py).
INVOICES = environment.switch("SHOP_INVOICES")

# The function that says an order's fees (shop/orders/totals.py); none: orders have no fees.
FEES = environment.text("SHOP_FEES")

# The shop's address, for links in mails.
PUBLIC_URL = environment.text("PUBLIC_URL").rstrip("/")

# --- Mail ---------------------------------------------------------------------------------------
DEFAULT_FROM_EMAIL = environment.text("DEFAULT_FROM_EMAIL")
EMAIL_HOST = environment.text("EMAIL_HOST")
EMAIL_PORT = environment.number("EMAIL_PORT")
EMAIL_HOST_USER = environment.text("EMAIL_HOST_USER")
EMAIL_HOST_PASSWORD = environment.text("EMAIL_HOST_PASSWORD")
EMAIL_USE_TLS = bool(EMAIL_HOST_USER)
EMAIL_TIMEOUT = 10
# Mails about orders, of one kind to one address: those that follow within this many seconds are
# sent as one when they are over; 0 sends each by itself.
SHOP_MAIL_INTERVAL = environment.number("MAIL_INTERVAL")
EMAIL_BACKEND = "django.core.mail.backends." + (
    "smtp.EmailBackend" if EMAIL_HOST else "console.EmailBackend"
)

# --- Language, time, static files, log ----------------------------------------------------------
LANGUAGES = environment.languages("SHOP_LANGUAGES")
LANGUAGE_CODE = LANGUAGES[0][0]
TIME_ZONE = environment.time_zone("SHOP_TIME_ZONE")

# Collected once, into the image. Without that, they are served from their source folders.
STATIC_URL = "static/"
STATIC_ROOT: Path | None = BASE_DIR / "staticfiles"
WHITENOISE_USE_FINDERS = not (BASE_DIR / "staticfiles" / "staticfiles.json").exists()
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {"BACKEND": "shop.operating.static_files.StaticFiles"},
}

LOGGING: dict[str, Any] = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"chosen": logs.formatter()},
    "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "chosen"}},
    "root": {"handlers": ["stderr"], "level": "WARNING"},
    "loggers": {
        name: {"level": environment.one_of("LOG_LEVEL", logs.LEVELS)}
        for name in ("shop", "inventory", "locking")
    },
}

# --- Browser-side safety ------------------------------------------------------------------------
CSRF_FAILURE_VIEW = "shop.pages.csrf.failure"
HTTPS = environment.switch("SHOP_HTTPS")
SESSION_COOKIE_SECURE = HTTPS
CSRF_COOKIE_SECURE = HTTPS
SECURE_SSL_REDIRECT = HTTPS
SECURE_HSTS_SECONDS = environment.number("HSTS_SECONDS") if HTTPS else 0
SECURE_HSTS_INCLUDE_SUBDOMAINS = HTTPS and environment.switch("HSTS_SUBDOMAINS")
SECURE_HSTS_PRELOAD = HTTPS and environment.switch("HSTS_PRELOAD")
# Trusted because the shop's port is reachable only by the proxy, which sets it (docker/nginx).
SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https") if HTTPS else None
AUTHENTICATION_BACKENDS = ["shop.accounts.throttle.ThrottledBackend"]
# The link of a mail is as good as the password until then.
PASSWORD_RESET_TIMEOUT = 4 * 3600
LOGIN_URL = "sign-in"
LOGIN_REDIRECT_URL = "/"
LOGOUT_REDIRECT_URL = "/"

# Django's hashers, which do not stop the loop of a web process (shop/accounts/hashing.py).
PASSWORD_HASHERS = [
    f"shop.accounts.hashing.{hasher}"
    for hasher in ("Pbkdf2", "Pbkdf2Sha1", "Argon2", "BcryptSha256", "Scrypt")
]

AUTH_PASSWORD_VALIDATORS = [
    {"NAME": f"django.contrib.auth.password_validation.{validator}"}
    for validator in (
        "UserAttributeSimilarityValidator",
        "MinimumLengthValidator",
        "CommonPasswordValidator",
        "NumericPasswordValidator",
    )
]
