"""The shop on a bed: web nodes on hosts of their own behind a front, everything else on `shop`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from urllib.parse import urlsplit

from django.conf import settings

from lab.bed.bed import Bed
from lab.bed.servers.haproxy import WEB_PORT, web_front
from lab.proof.testbed import Testbed
from lab.stack.folder import make_folder
from lab.stack.stack import Node, Stack
from loadtest.faults import Target
from loadtest.faults.hosts import Host

LOOPBACK = "127.0.0.1"


@contextmanager
def shop_on(bed: Bed, extra: Mapping[str, str] | None = None) -> Iterator[Testbed]:
    """Start the shop on a bed.

    Raises:
        StackError: a process does not come up.
    """
    folder = make_folder(bed.place.folder / "stack")
    failpoints = make_folder(folder / "failpoints")
    own = {
        "SHOP_DATA": str(make_folder(folder / "data")),
        "SHOP_FAILPOINTS": str(failpoints),
        # Each node has a machine of its own, but here they share one.
        "WEB_CONCURRENCY": "1",
        **(extra or {}),
    }
    with Stack(folder, bed.urls, extra=own) as stack:
        stack.nodes = {host.name: _node(bed, host, stack) for host in bed.hosts.with_role("web")}
        front = web_front(bed.place, bed.shop, stack.port, _local(bed, stack))
        bed.shop.start(front)
        stack.start(*stack.without_load)
        settings.PSP_URL, settings.MAIL_FOLDER = stack.psp_url, stack.mail_folder
        described = bed.place.folder / "hosts.json"
        bed.hosts.write(described)
        target = Target(
            web=stack.url,
            shop=int((folder / "supervisord.pid").read_text()),
            database=bed.urls.database,
            database_folder="",
            redis=bed.urls.redis,
            broker=bed.urls.broker,
            failpoints=str(failpoints),
            bed=str(described),
        )
        first = next(iter(stack.nodes))
        yield Testbed(stack.url, stack, target, stack.supervisor.log_file(first))


def _node(bed: Bed, host: Host, stack: Stack) -> Node:
    """Return a web node, which finds the servers on the host `shop` by that host's address."""
    urls = {**bed.urls.as_environment(), "PSP_URL": stack.psp_url, "EMAIL_HOST": LOOPBACK}
    environment = {
        **{name: url.replace(LOOPBACK, bed.shop.address) for name, url in urls.items()},
        "SHOP_BIND": host.address,
        "SHOP_PORT": str(WEB_PORT),
        "ALLOWED_HOSTS": f"{LOOPBACK},localhost,{host.address}",
        **bed.place.clock_of(host),
    }
    return Node(host.inside, f"http://{host.address}:{WEB_PORT}", environment)


def _local(bed: Bed, stack: Stack) -> set[int]:
    """Return the ports on the loopback of `shop` that the web nodes need."""
    urls = [url for url in bed.urls.as_environment().values() if urlsplit(url).hostname == LOOPBACK]
    ports = {urlsplit(url).port or 0 for url in urls}
    return ports | {stack.psp_port, stack.mail_port}
