"""The proxies that faults need between a shop and its servers."""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import ExitStack
from urllib.parse import urlsplit

from development.embedded import ServerUrls
from development.errors import StackError
from lab import environment
from loadtest.fault_needs import DATABASE_PROXY, REDIS_PROXY


def through_proxies(
    servers: ServerUrls, needs: frozenset[str], cleanup: ExitStack
) -> tuple[ServerUrls, dict[str, int]]:
    """Start the proxies that are needed; return the servers' URLs, and the proxies' controls."""
    database, redis, broker = servers.database, servers.redis, servers.broker
    controls = {}
    if DATABASE_PROXY in needs:
        port, controls[DATABASE_PROXY] = proxy(database, cleanup, "--postgres")
        database = by_way_of(database, port)
    if REDIS_PROXY in needs:
        port, controls[REDIS_PROXY] = proxy(redis, cleanup)
        redis, broker = by_way_of(redis, port), by_way_of(broker, port)
    # The payment provider is another company: it has its own connection to its own database.
    return ServerUrls(database, redis, broker, servers.psp), controls


def proxy(url: str, cleanup: ExitStack, *options: str) -> tuple[int, int]:
    """Start one before a server: its port and its control port. It ends with this process."""
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "loadtest.faults.proxy"),
            *("--to", str(urlsplit(url).port), *options),
        ],
        cwd=environment.PROJECT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    cleanup.callback(process.wait)
    cleanup.callback(process.stdout.close)
    cleanup.callback(process.stdin.close)
    line = process.stdout.readline()
    if not line:
        raise StackError("A proxy for the faults did not come up.")
    ports = json.loads(line)
    return ports["port"], ports["control"]


def by_way_of(url: str, port: int) -> str:
    """The URL of a server, through a proxy before it."""
    parts = urlsplit(url)
    before, _, _ = parts.netloc.rpartition(":")
    return parts._replace(netloc=f"{before}:{port}").geturl()
