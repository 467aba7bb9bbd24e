"""HAProxy before the web nodes, and before servers that listen on the shop's host only."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from lab.bed.servers.server import Place
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
