"""All environment variables in one table; no other module reads them.

Each may also be given as a file: `SECRET_KEY_FILE=/run/secrets/secret-key` stands for its content.
`shop/settings.py` turns them into Django's settings. `manage.py write_settings` writes the table
into `docs/settings.md`.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Collection
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from django.conf.locale import LANG_INFO
from django.core.exceptions import ImproperlyConfigured

PROJECT: Path = Path(__file__).resolve().parent.parent

SETTINGS = "shop.settings"
"""The production settings, with no default for what only the operator knows."""

_OWN: dict[str, Any] = tomllib.loads((PROJECT / "own/shop.toml").read_text(encoding="utf-8"))


def own(name: str) -> Any:
    """Return an entry of `own/shop.toml`, which says what differs between shops of this code."""
    return _OWN[name]


DEMO_SETTINGS: str = own("development")["settings"]
"""The same settings with an overlay for `SHOP_DEMO=1`."""


@dataclass(frozen=True)
class Variable:
    """One environment variable.

    Attributes:
        name: its name.
        default: its default, as text.
        meaning: what it does.
        secret: whether it is, or contains, a password or a key; `docker/secrets.yml` gives these as
            files.
    """

    name: str
    default: str
    meaning: str
    secret: bool = False


_OURS: dict[str, str] = own("defaults")

VARIABLES = (
    Variable("DATABASE_URL", "", "PostgreSQL; unset: an embedded one", secret=True),
    Variable(
        "REDIS_URL",
        "",
        "Redis, Valkey, Sentinels or a cluster, for locks; unset: embedded Valkey",
        secret=True,
    ),
    Variable("CELERY_BROKER_URL", "", "Celery's broker; unset: the embedded Valkey", secret=True),
    Variable("PAYMENT_PROVIDER", "http", "`http`, `stripe`, `wechat` or the path of a class"),
    Variable("PSP_URL", "", "payment provider's address; required for `http`"),
    Variable("PSP_KEY", "", "the shop's API key at the provider; required", secret=True),
    Variable("PSP_PUBLIC_KEY", "", "key for the provider's script on the page; Stripe: `pk_…`"),
    Variable("WECHAT_MERCHANT", "", "WeChat Pay: the merchant's number"),
    Variable("WECHAT_APP", "", "WeChat Pay: the app's id"),
    Variable("WECHAT_CERTIFICATE", "", "WeChat Pay: serial number of the merchant's certificate"),
    Variable("WECHAT_PRIVATE_KEY", "", "WeChat Pay: the merchant's private key, PEM", secret=True),
    Variable("WECHAT_PUBLIC_KEY", "", "WeChat Pay: WeChat's public key, PEM"),
    Variable("WECHAT_PUBLIC_KEY_ID", "", "WeChat Pay: id of WeChat's public key"),
    Variable("PSP_WEBHOOK_SECRET", "", "verifies provider webhooks; required", secret=True),
    Variable("PSP_HTTPS", "1", "0: allow a PSP_URL with plain HTTP to another machine"),
    Variable("SHOP_DEMO", "0", "1: the settings of development, with calls for load tests"),
    Variable("SHOP_PORT", "8000", "the shop's port; if unset and taken, the next free one"),
    Variable("PUBLIC_URL", "", "the shop's public address, for links in mails"),
    Variable("SHOP_BIND", "127.0.0.1", "address to listen on"),
    Variable("WEB_CONCURRENCY", "2", "web worker processes"),
    Variable("WEB_CONNECTIONS", "4000", "most client connections per web worker"),
    Variable(
        "SHOP_SERVES", "all", "what a web process serves: `all`, `api`, or `pages` (with admin)"
    ),
    Variable("TRUSTED_PROXIES", "0", "proxies before the shop that add to X-Forwarded-For"),
    Variable("WEB_READ_TIMEOUT", "10", "seconds for a request's head, and again for its body"),
    Variable("DB_POOL_SIZE", "16", "most database connections per process"),
    Variable("DB_POOL_MIN", "1", "database connections kept open per process"),
    Variable("DB_COMMIT_SECONDS", "5", "seconds until an unconfirmed commit is unknown; 0: never"),
    Variable("PGOPTIONS", "", "further settings of database sessions, such as -c lock_timeout=5s"),
    Variable("SHOP_NAME", _OURS["SHOP_NAME"], "the shop's name"),
    Variable("SHOP_PAGES", _OURS["SHOP_PAGES"], "0: the API and the admin only"),
    Variable("SHOP_DRAWS", "1", "0: no draws; `shop/draws` may be deleted"),
    Variable("DRAND_URL", "https://api.drand.sh", "beacon of draws by `drand quicknet`"),
    Variable(
        "SHOP_PAYMENTS", _OURS["SHOP_PAYMENTS"], "0: orders need no payment, the shop no `PSP_*`"
    ),
    Variable(
        "SHOP_TIME_ZONE", "UTC", "such as Europe/Berlin: of the admin, mails and the day's figures"
    ),
    Variable(
        "SHOP_LANGUAGES", _OURS["SHOP_LANGUAGES"], "of pages, mails and refusals, the default first"
    ),
    Variable(
        "SHOP_CURRENCY",
        _OURS["SHOP_CURRENCY"],
        "currency (ISO 4217) of products and sales that name none",
    ),
    Variable(
        "SHOP_STAFF_SECOND_FACTOR",
        "0",
        "1: the admin asks staff for a code of an authenticator app (`manage.py second_factor`)",
    ),
    Variable("SHOP_INVOICES", "1", "0: paid orders and refunds get no gapless numbers"),
    Variable("SHOP_FEES", "", "function that says an order's fees, such as `acme.fees.shipping`"),
    Variable("RATE_LIMIT", "20", "purchases per second per buyer and process; demo: no limit"),
    Variable("INVENTORY_MAX_BATCH", "256", "most purchases in one transaction"),
    Variable("INVENTORY_MAX_WAITING", "5000", "most purchases waiting per item and process"),
    Variable("INVENTORY_MAX_WAIT", "10", "seconds before a waiting purchase is refused as busy"),
    Variable("SECRET_KEY", "", "signs sessions and buyer tokens; required", secret=True),
    Variable("ALLOWED_HOSTS", "", "host names served, comma-separated; required"),
    Variable("CSRF_TRUSTED_ORIGINS", "", "origins such as https://shop.example, comma-separated"),
    Variable("SHOP_HTTPS", "1", "0: serve plain HTTP outside the demo (no redirect, no HSTS)"),
    Variable("HSTS_SECONDS", "3600", "seconds that browsers insist on HTTPS"),
    Variable("HSTS_SUBDOMAINS", "0", "1: on the shop's subdomains too"),
    Variable("HSTS_PRELOAD", "0", "1: allow browsers to ship with that rule; hard to take back"),
    Variable("EMAIL_HOST", "", "mail server; unset: mails go to the log"),
    Variable("EMAIL_PORT", "587", "mail server's port"),
    Variable("EMAIL_HOST_USER", "", "user at the mail server"),
    Variable("EMAIL_HOST_PASSWORD", "", "password at the mail server", secret=True),
    Variable("DEFAULT_FROM_EMAIL", "shop@localhost", "sender of the shop's mails"),
    Variable("MAIL_INTERVAL", "300", "seconds between mails of one kind about orders, per address"),
    Variable("METRICS_FOLDER", "", "folder that all processes write metrics to; unset: none"),
    Variable("ALIVE_FILE", "", "file that a Celery worker touches while it hears its broker"),
    Variable("METRICS_PORT", "9101", "port of `manage.py export_metrics`"),
    Variable("LOG_FORMAT", "", "`json` or `line`; unset: `json`, in the demo `line`"),
    Variable("LOG_LEVEL", "INFO", "level of the shop's own log lines"),
    Variable("OTEL_TRACES_EXPORTER", "", "`otlp` or `console`: record traces; unset: none"),
    Variable("OTEL_TRACES_SAMPLER", "parentbased_traceidratio", "which requests are traced"),
    Variable("OTEL_TRACES_SAMPLER_ARG", "0.01", "the sampler's argument: share of the requests"),
    Variable(
        "SENTRY_DSN",
        "",
        "where errors are reported, without personal data; unset: nowhere",
        secret=True,
    ),
)

_DEFAULTS = {variable.name: variable.default for variable in VARIABLES}


def declare(*variables: Variable) -> tuple[Variable, ...]:
    """Add an app's variables to the table; return them."""
    _DEFAULTS.update({variable.name: variable.default for variable in variables})
    return variables


def text(name: str) -> str:
    """Return the variable `name`, or its default when it is unset or empty.

    Raises:
        ImproperlyConfigured: its file cannot be read.
    """
    return _given(name) or _DEFAULTS[name]


def is_set(name: str) -> bool:
    """Return whether the variable `name` has a value."""
    return bool(_given(name))


def _given(name: str) -> str:
    if value := os.environ.get(name):
        return value
    path = os.environ.get(f"{name}_FILE")
    if not path:
        return ""
    try:
        return Path(path).read_text(encoding="utf-8").strip()
    except OSError as error:
        raise ImproperlyConfigured(f"{name}_FILE cannot be read: {error}") from error


def number(name: str) -> int:
    """Return the variable `name` as a whole number.

    Raises:
        ImproperlyConfigured: it is not a whole number.
    """
    value = text(name)
    if not value.isdecimal():
        raise ImproperlyConfigured(f"{name} must be a whole number, not {value!r}.")
    return int(value)


def switch(name: str) -> bool:
    """Return the variable `name` as yes (1) or no (0).

    Raises:
        ImproperlyConfigured: it is neither.
    """
    value = text(name)
    if value not in {"0", "1"}:
        raise ImproperlyConfigured(f"{name} must be 0 or 1, not {value!r}.")
    return value == "1"


def one_of(name: str, allowed: Collection[str]) -> str:
    """Return the variable `name`, which must be one of these.

    Raises:
        ImproperlyConfigured: it is not.
    """
    value = text(name)
    if value not in allowed:
        raise ImproperlyConfigured(f"{name} must be one of {', '.join(allowed)}, not {value!r}.")
    return value


def names(name: str) -> list[str]:
    """Return the comma-separated variable `name` as a list."""
    return [part.strip() for part in text(name).split(",") if part.strip()]


def languages(name: str) -> list[tuple[str, str]]:
    """Return the languages of the comma-separated variable `name`, with their own names.

    Raises:
        ImproperlyConfigured: there is none, or Django does not know one of them.
    """
    codes = names(name)
    known: dict[str, str] = {
        code: about["name_local"] for code, about in LANG_INFO.items() if "name_local" in about
    }
    if not codes or not known.keys() >= set(codes):
        raise ImproperlyConfigured(
            f"{name} must be languages that Django knows, such as en,zh-hans, not {text(name)!r}."
        )
    return [(code, known[code]) for code in codes]


PROVIDERS = {
    "http": "shop.payments.http_provider.HttpProvider",
    "stripe": "shop.payments.stripe.Stripe",
    "wechat": "shop.payments.wechat.WeChat",
}
"""The payment providers that come with the shop, by their names in PAYMENT_PROVIDER."""


def payment_provider() -> str:
    """Return the dotted path of the payment provider's class."""
    name = text("PAYMENT_PROVIDER")
    return PROVIDERS.get(name, name)


def time_zone(name: str) -> str:
    """Return the time zone that the variable `name` names.

    Raises:
        ImproperlyConfigured: there is none of this name.
    """
    zone = text(name)
    try:
        ZoneInfo(zone)
    except (ValueError, OSError, ZoneInfoNotFoundError) as error:
        raise ImproperlyConfigured(
            f"{name} must be a time zone such as Europe/Berlin, not {zone!r}."
        ) from error
    return zone


def authority(host: str, port: int) -> str:
    """Return host and port as in a URL: an IPv6 address is in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def hand_on(*names: str) -> None:
    """Set variables to their defaults for a library that reads them itself."""
    for name in names:
        os.environ[name] = text(name)


def choose_settings() -> None:
    """Set DJANGO_SETTINGS_MODULE unless it is set: the demo's if `SHOP_DEMO=1`, else the shop's.

    Raises:
        ImproperlyConfigured: `SHOP_DEMO` is neither 0 nor 1.
        SystemExit: `SHOP_DEMO=1` in an installation that has production's settings only.
    """
    chosen = SETTINGS
    if switch("SHOP_DEMO"):
        chosen = DEMO_SETTINGS
        if find_spec(package := chosen.partition(".")[0]) is None:
            raise SystemExit(
                f"error: SHOP_DEMO=1 needs {package}/, which is not here. "
                "Set SHOP_DEMO=0, or build the image with SHOP_TARGET=development."
            )
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", chosen)
