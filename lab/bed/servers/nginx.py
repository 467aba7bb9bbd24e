"""nginx before the web nodes, with the shop's own configuration (docker/nginx)."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from lab import environment
from lab.bed.servers.server import Place
from loadtest.faults.hosts import Host, Server
from loadtest.faults.web_hosts import PORT


def configure(folder: Path, port: int, nodes: Iterable[str]) -> list[str]:
    """Write docker/nginx/nginx.conf with other addresses and folders, and nothing else changed.

    Args:
        folder: for nginx' files.
        port: for the buyers, on the loopback.
        nodes: the web nodes' addresses with their ports.

    Returns:
        The command that runs nginx with it.
    """
    text = (environment.PROJECT / "docker" / "nginx" / "nginx.conf").read_text()
    servers = " ".join(f"server {node} max_fails=0;" for node in nodes)
    for old, new in {
        "server shop:8000 resolve max_fails=0;": servers,
        "resolver 127.0.0.11 valid=2s ipv6=off;": "",
        "listen 8080 backlog=4096;": f"listen 127.0.0.1:{port} backlog=4096;",
        "listen 8081;": f"listen unix:{folder}/8081;",
        "listen 127.0.0.1:8082;": f"listen unix:{folder}/8082;",
        "8080:https https;": f"{port}:https https;",
        "8080 $http_host;": f"{port} $http_host;",
        " /tmp/": f" {folder}/",
    }.items():
        if old not in text:
            raise ValueError(f"docker/nginx/nginx.conf has no {old!r} any more")
        text = text.replace(old, new)
    path = folder / "nginx.conf"
    path.write_text(text)
    directives = "daemon off; error_log stderr;" + (" user root;" if os.geteuid() == 0 else "")
    return ["nginx", "-p", str(folder), "-c", str(path), "-g", directives]


def web_front(place: Place, host: Host, port: int) -> Server:
    """Set nginx up: buyers to the web nodes."""
    nodes = [f"{web.address}:{PORT}" for web in place.hosts.with_role("web")]
    return place.add(host, "nginx", configure(place.disk(host), port, nodes))
