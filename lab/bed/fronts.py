"""What stands before servers: HAProxy, and nginx as docker/nginx configures it."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from lab import environment
from lab.bed.description import Place
from loadtest.faults.hosts import Host, Server
from loadtest.faults.web_hosts import PORT as WEB_PORT

COMMON = """\
global
  maxconn 8000
defaults
  timeout connect 1s
  timeout client {idle}
  timeout server {idle}
  timeout check {check}
  retries 1
  option redispatch
  # A client whose host died is noticed after 5 s. Its database session would keep its locks.
  option clitcpka
  clitcpka-idle 2s
  clitcpka-intvl 1s
  clitcpka-cnt 3
"""

WEB = """\
frontend buyers
  mode http
  bind 127.0.0.1:{port}
  default_backend web
backend web
  mode http
  balance roundrobin
  # A node that is told to stop waits for the connections that are open to it.
  option http-server-close
  option httpchk
  http-check send meth GET uri /readyz ver HTTP/1.1 hdr Host 127.0.0.1 hdr Connection close
  # /readyz takes up to 2 s while a server does not answer, and longer on a busy machine. Requests
  # under way may still get their answers from a node that has become unready.
  default-server check inter 1s fall 2 rise 1
"""

LOCAL = """\
listen local{port}
  mode tcp
  bind {address}:{port}
  timeout client 1h
  timeout server 1h
  server local 127.0.0.1:{port}
"""


def front(place: Place, host: Host, local: Iterable[int], port: int = 0) -> Server:
    """Set up the way of buyers to the web nodes, and of the nodes to the shop's own servers.

    Args:
        host: on which it runs.
        local: ports of servers that listen on that host's loopback; other hosts reach them by
            its address.
        port: for the buyers, on that host's loopback; 0: they have another way.
    """
    lines = [COMMON.format(idle="40s", check="6s")]
    if port:
        nodes = place.hosts.with_role("web")
        lines += [WEB.format(port=port)]
        lines += [f"  server {web.name} {web.address}:{WEB_PORT}\n" for web in nodes]
    lines += [LOCAL.format(port=each, address=host.address) for each in local]
    return _haproxy(place, host, "front", "".join(lines))


def database_front(
    place: Place, host: Host, port: int, servers: Mapping[str, str], health_port: int
) -> Server:
    """Set up the way to the database's primary: the node whose agent says that it is one.

    Args:
        port: on every address of the host.
        servers: addresses with ports, by name.
        health_port: of each node's agent.
    """
    lines = [
        COMMON.format(idle="1h", check="2s"),
        f"listen primary\n  mode tcp\n  bind *:{port}\n  option httpchk OPTIONS /primary\n",
        "  http-check expect status 200\n",
        # Sessions on a former primary end at once: their clients would wait for it.
        "  default-server inter 500ms fall 3 rise 1 on-marked-down shutdown-sessions",
        f" check port {health_port}\n",
        *(f"  server {name} {address}\n" for name, address in servers.items()),
    ]
    return _haproxy(place, host, "database-front", "".join(lines))


def _haproxy(place: Place, host: Host, name: str, configuration: str) -> Server:
    file = place.disk(host) / f"{name}.cfg"
    file.write_text(configuration)
    return place.add(host, name, ["haproxy", "-db", "-f", str(file)])


def configure_nginx(folder: Path, port: int, nodes: Iterable[str]) -> list[str]:
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
        "server shop-pages:8000 resolve max_fails=0;": servers,  # they serve both
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
    nodes = [f"{web.address}:{WEB_PORT}" for web in place.hosts.with_role("web")]
    return place.add(host, "nginx", configure_nginx(place.disk(host), port, nodes))
