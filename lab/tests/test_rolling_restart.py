"""An update under load through nginx as Compose configures it: no request fails.

`lab/tests/test_compose_engine.py` does it with containers; this needs nginx only. One replica after
the other is stopped while buyers go on, and its port is served again by a new one. nginx knows
all three addresses all the time, as it does with containers for two seconds after each change.
"""

from __future__ import annotations

import os
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from http.client import HTTPException
from pathlib import Path
from uuid import uuid4

import pytest

from development.embedded import private_servers
from development.needs import needs
from development.ports import next_free, release
from development.processes import Web
from development.servers import Command
from lab import environment
from lab.tests.needs import NGINX
from lab.tests.whole_shop import Answer, Client, manage, new_buyers, new_sale
from shop.tests.processes import succeed, wait_for

pytestmark = [pytest.mark.long, pytest.mark.timeout(600), needs(NGINX)]

BUYERS = 6


def nginx_of_compose(folder: Path, port: int, replicas: list[int]) -> list[str]:
    """Write docker/nginx/nginx.conf with other addresses and folders; return nginx's command."""
    text = (environment.PROJECT / "docker" / "nginx" / "nginx.conf").read_text()
    servers = " ".join(f"server 127.0.0.1:{replica} max_fails=0;" for replica in replicas)
    for there, here in {
        "server shop:8000 resolve max_fails=0;": servers,
        "server shop-pages:8000 resolve max_fails=0;": servers,  # they serve both
        "resolver 127.0.0.11 valid=2s ipv6=off;": "",
        "listen 8080 backlog=4096;": f"listen 127.0.0.1:{port} backlog=4096;",
        "listen 127.0.0.1:8082;": f"listen unix:{folder}/8082;",
        "8080:https https;": f"{port}:https https;",
        "8080 $http_host;": f"{port} $http_host;",
        " /tmp/": f" {folder}/",
    }.items():
        assert there in text, there
        text = text.replace(there, here)
    path = folder / "nginx.conf"
    path.write_text(text)
    directives = "daemon off; error_log stderr;" + (" user root;" if os.geteuid() == 0 else "")
    return ["nginx", "-p", str(folder), "-c", str(path), "-g", directives]


class Shop:
    """Replicas of the web server behind nginx.

    Args:
        variables: of the replicas, but for their ports.
    """

    def __init__(self, folder: Path, variables: Mapping[str, str], opened: ExitStack) -> None:
        self.variables, self.opened = variables, opened
        self.port, *self.ports = [next_free(19100) for _ in range(4)]
        opened.callback(release, self.port, *self.ports)
        self.replicas: dict[int, Web] = {}
        nginx = nginx_of_compose(folder, self.port, self.ports)
        self.nginx = opened.enter_context(Command("nginx", nginx, port=self.port))

    def start(self, port: int) -> None:
        """Start a replica; return when it answers."""
        web = Web({**self.variables, "WEB_CONCURRENCY": "2"}, port=port, path="/readyz")
        self.replicas[port] = self.opened.enter_context(web)

    def stop(self, port: int) -> None:
        """Stop a replica as an orchestrator does; return when it has ended."""
        process = self.replicas.pop(port).process
        assert process is not None
        process.terminate()
        assert process.wait(60) == 0


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    with private_servers(durable=False) as servers, ExitStack() as opened:
        manage(servers.urls, "migrate", "--verbosity", "0")
        variables = {**servers.urls.as_environment(), "SHOP_BIND": "127.0.0.1", "RATE_LIMIT": "0"}
        yield Shop(tmp_path, variables, opened)


class Traffic:
    """Buyers who read, buy, and cancel an order that is cancelled, until they are stopped.

    A cancellation is a POST without a key, which nginx must not send twice.
    """

    def __init__(self, shop: Shop) -> None:
        self.port = shop.port
        self.sale = new_sale(shop.port, stock=1_000_000, limit=1_000_000)
        self.tokens = new_buyers(shop.port, BUYERS)
        self.answers: Counter[tuple[str, object]] = Counter()
        self._over = threading.Event()

    @contextmanager
    def running(self) -> Iterator[None]:
        threads = [threading.Thread(target=self._buy, args=[token]) for token in self.tokens]
        for thread in threads:
            thread.start()
        try:
            self.wait_for_more()
            yield
            self.wait_for_more()
        finally:
            self._over.set()
            for thread in threads:
                thread.join()

    def wait_for_more(self) -> None:
        """Return when every buyer has bought again."""
        wanted = self.answers["buy", 201] + 10 * BUYERS
        wait_for(lambda: self.answers["buy", 201] >= wanted, 120)

    def _buy(self, token: str) -> None:
        with closing(Client(self.port)) as client:
            order = client.buy(self.sale, token).body["id"]
            cancel = partial(
                client.ask,
                "POST",
                f"/api/v1/orders/{order}/cancel",
                Authorization=f"Bearer {token}",
            )
            while not self._over.is_set():
                self._ask("buy", partial(client.buy, self.sale, token, str(uuid4())))
                self._ask("read", partial(client.ask, "GET", f"/api/v1/sales/{self.sale}"))
                self._ask("cancel", cancel)
                self._ask("page", partial(client.ask, "GET", f"/sales/{self.sale}/"))

    def _ask(self, what: str, call: Callable[[], Answer]) -> None:
        try:
            said: object = call().status
        except (OSError, HTTPException) as error:
            said = repr(error)
        self.answers[what, said] += 1


def test_rolling_restart_fails_no_request(shop: Shop) -> None:
    old, also_old, new = shop.ports
    shop.start(old)
    shop.start(also_old)
    traffic = Traffic(shop)
    with traffic.running():
        for port, replaced in ((new, old), (old, also_old)):
            shop.start(port)
            traffic.wait_for_more()
            shop.stop(replaced)
            traffic.wait_for_more()
    # 200: nginx has sent a purchase again, whose replica died with it in hand.
    right = {("buy", 201), ("buy", 200), ("read", 200), ("cancel", 200), ("page", 200)}
    assert set(traffic.answers) <= right, (traffic.answers, shop.nginx.log.read_text())
    audited = {**os.environ, **shop.variables}
    succeed(sys.executable, "manage.py", "audit", env=audited)
