"""The shop on a bed: web nodes on hosts of their own behind a front, the rest on `shop`.

Celery's workers and beats are on `shop` too, unless the bed names other hosts for them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from urllib.parse import urlsplit

from django.conf import settings

from development.folder import make_folder
from lab.bed.bed import FRONT, OF_SHOP, Bed
from lab.bed.description import SHOP
from lab.bed.fronts import WEB_PORT, front, web_front
from lab.proof.testbed import Testbed
from lab.stack.stack import READY_SECONDS, Node, Stack, serves
from loadtest.faults.hosts import Host, Server

LOOPBACK = "127.0.0.1"


@contextmanager
def shop_on(bed: Bed) -> Iterator[Testbed]:
    """Start the shop on a bed.

    Raises:
        StackError: a process does not come up.
    """
    folder = make_folder(bed.place.folder / "stack")
    described = bed.place.folder / "hosts.json"
    parts = {"failpoints": str(make_folder(folder / "failpoints")), "bed": str(described)}
    own = {
        "SHOP_DATA": str(make_folder(folder / "data")),
        # Each node has a machine of its own, but here they share one.
        "WEB_CONCURRENCY": "1",
    }
    with Stack(folder, bed.urls, extra=own, parts=parts) as stack:
        nodes = _nodes(bed, stack)
        kinds = {node.kind for node in nodes.values()}
        kept = {name: node for name, node in stack.nodes.items() if node.kind not in kinds}
        stack.nodes = nodes | kept
        for before in _fronts(bed, stack):
            bed.shop.start(before)
        stack.start(*stack.without_load)
        settings.PSP_URL, settings.MAIL_FOLDER = stack.psp_url, stack.mail_folder
        bed.hosts.write(described)
        first = next(iter(stack.web_nodes))
        # The front asks each node once a second, and sends it no buyer before it has answered.
        front_serves = partial(serves, f"{stack.url}/healthz")
        stack.supervisor.wait_until(first, front_serves, READY_SECONDS)
        yield Testbed(stack.url, stack, stack.target(None), stack.supervisor.log_file(first))


def _nodes(bed: Bed, stack: Stack) -> dict[str, Node]:
    """Return the shop's processes that run on hosts of their own, by name."""
    return {
        host.name if kind == "web" else f"{kind}-{host.name}": _node(bed, host, stack, kind)
        for kind in OF_SHOP
        for host in map(bed.hosts.__getitem__, bed.place.description.hosts_of(kind))
    }


def _node(bed: Bed, host: Host, stack: Stack, kind: str) -> Node:
    """Return a process that finds the servers on the host `shop` by that host's address."""
    urls = {**bed.urls.as_environment(), "PSP_URL": stack.psp_url, "EMAIL_HOST": LOOPBACK}
    environment = {
        **{name: url.replace(LOOPBACK, bed.shop.address) for name, url in urls.items()},
        "SHOP_BIND": host.address,
        "SHOP_PORT": str(WEB_PORT),
        "ALLOWED_HOSTS": f"{LOOPBACK},localhost,{host.address}",
        **bed.place.clock_of(host),
    }
    return Node(kind, host.inside, f"http://{host.address}:{WEB_PORT}", environment)


def _fronts(bed: Bed, stack: Stack) -> Iterator[Server]:
    """Set up what stands before the web nodes, and before the servers on the host `shop`."""
    port = stack.port
    if FRONT in bed.place.description.hosts[SHOP]:
        yield web_front(bed.place, bed.shop, port)
        port = 0
    yield front(bed.place, bed.shop, _local(bed, stack), port)


def _local(bed: Bed, stack: Stack) -> set[int]:
    """Return the ports on the loopback of `shop` that the web nodes need."""
    urls = [url for url in bed.urls.as_environment().values() if urlsplit(url).hostname == LOOPBACK]
    ports = {urlsplit(url).port or 0 for url in urls}
    return ports | {stack.psp_port, stack.mail_port}
