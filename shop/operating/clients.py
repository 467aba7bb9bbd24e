"""The address of the client that sent a request, behind as many proxies as the operator trusts."""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import ip_address, ip_network
from typing import Any

from django.conf import settings

IPV6_PREFIX = 64
"""Bits of an IPv6 address that one client is given; it may use any address below them."""


def address(environ: Mapping[str, Any]) -> str:
    """Return the client's address; of IPv6, the network that a client is given.

    Each trusted proxy adds to `X-Forwarded-For` the address that it was called from, so what a
    client writes there itself stands further left and is not looked at.
    """
    found: str = environ.get("REMOTE_ADDR", "")
    if settings.TRUSTED_PROXIES:
        header = environ.get("HTTP_X_FORWARDED_FOR", "")
        hops = [hop.strip() for hop in header.split(",") if hop.strip()]
        found = hops[-settings.TRUSTED_PROXIES :][0] if hops else found
    try:
        parsed = ip_address(found.strip("[]"))
    except ValueError:
        return found
    if parsed.version == 4:
        return found
    return str(ip_network((parsed, IPV6_PREFIX), strict=False))
