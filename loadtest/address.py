"""Where the shop is, and whether it may be loaded."""

from __future__ import annotations

import ipaddress
import os
from urllib.parse import urlsplit

ALLOWED_HOST = "LOADTEST_ALLOW_HOST"
"""A load test is an attack on another company's shop: other hosts have to be named on purpose."""


class RunImpossible(RuntimeError):
    """The run cannot start, or not be judged; says why."""


def address_of(url: str, *, owned: bool = False) -> tuple[str, int]:
    """Return host and port of a shop.

    Args:
        url: of the shop.
        owned: the caller owns the host, so that it may be another machine.

    Raises:
        RunImpossible: it is no address, or not this machine's.
    """
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", 80 if parts.port is None else parts.port
    except ValueError:
        host, port = "", 0
    if not (host and port and parts.scheme == "http"):
        raise RunImpossible(f"the shop's address must look like http://127.0.0.1:8000, not {url!r}")
    if not (owned or _loopback(host) or os.environ.get(ALLOWED_HOST) == host):
        raise RunImpossible(
            f"{host} is not this machine. If you may load it, say --i-own-this-host, or set "
            f"{ALLOWED_HOST}={host}."
        )
    return host, port


def authority(host: str, port: int) -> str:
    """Return host and port as in a URL or a `Host` header: an IPv6 address is in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
