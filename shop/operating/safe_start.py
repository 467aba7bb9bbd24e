"""What production needs before it starts: every server and secret, and no value known to be unsafe.

Every entry point that serves (`wsgi`, `celery`, `manage.py`) asks here, and so does
`check --deploy`; the settings module does not, because type checkers and editors import it too.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from ipaddress import ip_address
from urllib.parse import urlsplit

from django.conf import settings
from django.core.checks.security import base as django_checks
from django.core.exceptions import ImproperlyConfigured

from locking.redis_client import topology_of
from shop import environment
from shop.money import is_money

# Only the operator knows these, so they have no default outside the demo.
REQUIRED = ("DATABASE_URL", "REDIS_URL", "CELERY_BROKER_URL", "SECRET_KEY", "ALLOWED_HOSTS")
REQUIRED_FOR_PAYMENTS = {
    "http": ("PSP_URL", "PSP_KEY", "PSP_WEBHOOK_SECRET"),
    "stripe": ("PSP_KEY", "PSP_PUBLIC_KEY", "PSP_WEBHOOK_SECRET"),
    "wechat": (
        "PSP_KEY",
        "PUBLIC_URL",
        "WECHAT_MERCHANT",
        "WECHAT_APP",
        "WECHAT_CERTIFICATE",
        "WECHAT_PRIVATE_KEY",
        "WECHAT_PUBLIC_KEY",
        "WECHAT_PUBLIC_KEY_ID",
    ),
}
"""By `PAYMENT_PROVIDER`. A class of another name decides for itself."""

MIN_WEBHOOK_SECRET = 32
"""Characters. Providers give out more; HMAC-SHA256 gains nothing from more bytes than these."""

DIFFERENT = django_checks.SECRET_KEY_MIN_UNIQUE_CHARACTERS

OFFLINE_COMMANDS = frozenset(
    {
        "help",
        "version",
        "check",
        "makemigrations",
        "makemessages",
        "compilemessages",
        "collectstatic",
        "diffsettings",
        "startapp",
        "startproject",
        "findstatic",
        "test",
    }
)
"""Commands of `manage.py` that touch neither database nor Redis."""


def refuse_unsafe_command(arguments: Sequence[str]) -> None:
    """Stop a `manage.py` command that needs servers or secrets that are not set.

    Args:
        arguments: the command line, starting with the program's name.

    Raises:
        SystemExit: names all problems.
    """
    command = next((word for word in arguments[1:] if not word.startswith("-")), "help")
    if command in OFFLINE_COMMANDS or {"-h", "--help", "--version"} & set(arguments):
        return
    try:
        refuse_unsafe_start()
    except ImproperlyConfigured as error:
        raise SystemExit(f"error: {error}") from error


def refuse_unsafe_start() -> None:
    """Stop a production start that lacks a secret or a server address, or has an unsafe value.

    Raises:
        ImproperlyConfigured: names all problems.
    """
    if found := list(problems()):
        raise ImproperlyConfigured("\n".join(found))


def problems() -> Iterator[str]:
    """Say what keeps production from starting; nothing if other settings than its own are used.

    Settings that extend the shop's decide for themselves.
    """
    named = os.environ.get("DJANGO_SETTINGS_MODULE", environment.SETTINGS)
    module = settings.SETTINGS_MODULE if settings.configured else named
    if module == environment.SETTINGS:
        yield from _missing()
        yield from _unsafe()


def _missing() -> Iterator[str]:
    takes_payments = environment.switch("SHOP_PAYMENTS")
    provider = environment.text("PAYMENT_PROVIDER") if takes_payments else ""
    payments = REQUIRED_FOR_PAYMENTS.get(provider, ())
    missing = [name for name in (*REQUIRED, *payments) if not environment.is_set(name)]
    if missing:
        yield (
            f"These environment variables must be set: {', '.join(missing)}. "
            "On a development machine, set SHOP_DEMO=1 instead."
        )


def _unsafe() -> Iterator[str]:
    # What only some processes read: a wrong value stops all of them, and not one of them later.
    for name in ("WEB_READ_TIMEOUT", "METRICS_PORT"):
        environment.number(name)
    environment.switch("PSP_HTTPS")
    size, kept = map(environment.number, ("DB_POOL_SIZE", "DB_POOL_MIN"))
    if not 1 <= size >= kept:
        yield (
            f"DB_POOL_SIZE must be at least 1 and at least DB_POOL_MIN, {kept}, not {size}: the "
            "connections that a process keeps open are among the most that it may have."
        )
    provider = environment.payment_provider()
    if "." not in provider:
        names = ", ".join(environment.PROVIDERS)
        yield f"PAYMENT_PROVIDER must be {names} or the path of a class, not {provider!r}."
    redis = environment.text("REDIS_URL")
    if redis and not _is_redis_url(redis):
        yield (
            "REDIS_URL must be a URL such as redis://:password@host:6379/0, rediss://…, unix://…, "
            "redis+sentinel://host:26379,host:26379/service/0 or "
            f"redis+cluster://host:6379,host:6379, not {redis!r}."
        )
    if not is_money(currency := environment.text("SHOP_CURRENCY")):
        yield f"SHOP_CURRENCY must be a currency of ISO 4217, not {currency!r}."
    fees = environment.text("SHOP_FEES")
    if fees and not _is_function(fees):
        yield f"SHOP_FEES must name a function, such as acme.fees.shipping, not {fees!r}."
    key, secret, url = map(environment.text, ("SECRET_KEY", "PSP_WEBHOOK_SECRET", "PSP_URL"))
    shortest = django_checks.SECRET_KEY_MIN_LENGTH
    prefix = django_checks.SECRET_KEY_INSECURE_PREFIX
    if key and (not _is_random(key, shortest) or key.startswith(prefix)):
        yield (
            f"SECRET_KEY must have at least {shortest} characters, at least {DIFFERENT} different "
            f"ones, and not begin with {prefix}: anybody who guesses it can sign in as any user. "
            "Make one with `openssl rand -hex 32`."
        )
    if secret and not _is_random(secret, MIN_WEBHOOK_SECRET):
        yield (
            f"PSP_WEBHOOK_SECRET must have at least {MIN_WEBHOOK_SECRET} characters, "
            f"at least {DIFFERENT} different ones: whoever guesses it reports payments that were "
            "never made."
        )
    if "*" in environment.names("ALLOWED_HOSTS"):
        yield "ALLOWED_HOSTS must name the shop's hosts instead of *, which is any host."
    if url and not _is_private(url):
        yield (
            "PSP_URL must begin with https://: over plain HTTP, the shop's key can be read on the "
            "way. If that way is safe, set PSP_HTTPS=0 and an address with http://."
        )


def _is_random(secret: str, shortest: int) -> bool:
    return len(secret) >= shortest and len(set(secret)) >= DIFFERENT


def _is_function(path: str) -> bool:
    """Return whether a path has a module; importing it has to wait until Django is set up."""
    module = path.rpartition(".")[0]
    try:
        return bool(module) and find_spec(module) is not None
    except (ImportError, ValueError):
        return False


def _is_redis_url(url: str) -> bool:
    try:
        topology_of(url)
    except ValueError:
        return False
    return True


def _is_private(url: str) -> bool:
    """Return whether nobody can read what is sent to a URL, or the operator has answered for it."""
    parts = urlsplit(url)
    if parts.scheme != "http":
        return parts.scheme == "https"
    return not environment.switch("PSP_HTTPS") or _is_this_machine(parts.hostname or "")


def _is_this_machine(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
