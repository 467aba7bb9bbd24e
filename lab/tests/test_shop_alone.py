"""Without `lab/`, `loadtest/` and `development/`, a complete shop remains.

Its tests run where it is taken home (`test_take_home.py`).
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from development.embedded import ServerUrls, private_servers
from development.ports import next_free
from development.processes import Web
from lab import environment
from lab.tests.whole_shop import ask, buy, production
from shop.tests.processes import run, succeed

pytestmark = [pytest.mark.long, pytest.mark.timeout(300)]

KEPT = (
    "inventory",
    "locking",
    "own",
    "serving",
    "shop",
    "manage.py",
    "gunicorn.conf.py",
)
LEFT_OUT = shutil.ignore_patterns("__pycache__", "*.pyc")


class Shop:
    """A copy of the product in a separate folder, with a production environment."""

    def __init__(self, folder: Path, urls: ServerUrls) -> None:
        self.folder, self.port = folder, next_free(20_000)
        more = {"SHOP_HTTPS": "0", "SHOP_PORT": str(self.port)}
        self.environment = production(urls, "127.0.0.1", **more)

    def run(self, *words: str) -> str:
        """Run a Python module or file of the copy; return its output."""
        return succeed(sys.executable, *words, cwd=self.folder, env=self.environment)


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    folder = tmp_path_factory.mktemp("product")
    for name in KEPT:
        source = environment.PROJECT / name
        if source.is_dir():
            shutil.copytree(source, folder / name, ignore=LEFT_OUT)
        else:
            shutil.copy(source, folder)
    with private_servers(durable=False) as servers:
        yield Shop(folder, servers.urls)


def test_shop_alone_migrates_starts_and_sells(shop: Shop) -> None:
    shop.run("manage.py", "migrate")
    shop.run("manage.py", "check", "--deploy")
    user = "from shop.accounts.models import User; User.objects.create_user('ann', '', 'pw')"
    shop.run("manage.py", "shell", "-c", user)
    made = shop.run("manage.py", "create_sale", "--stock", "3", "--limit", "2", "--json")
    sale = json.loads(made)["sale"]
    web = Web(port=shop.port, path="/readyz")
    web.folder, web.inherited = shop.folder, shop.environment
    with web:
        login = {"username": "ann", "password": "pw"}
        token = ask(shop.port, "POST", "/api/v1/tokens", login).body["token"]
        key = str(uuid4())
        first, again = (buy(shop.port, sale, token, key) for _ in "12")
        assert (first.status, first.body["quantity"]) == (201, 1)
        assert (again.status, again.body) == (200, first.body)
    books = json.loads(shop.run("manage.py", "audit", "--json"))
    assert books["balanced"]
    assert [(book["available"], book["held"]) for book in books["items"]] == [(2, 1)]


@pytest.mark.parametrize(
    "words",
    [
        ["manage.py", "check"],
        ["-m", "gunicorn", "-c", "gunicorn.conf.py", "shop.wsgi"],
        ["-m", "celery", "-A", "shop", "worker"],
    ],
)
def test_shop_alone_refuses_to_be_a_demo_in_one_line(shop: Shop, words: list[str]) -> None:
    demo = {**shop.environment, "SHOP_DEMO": "1"}
    done = run(sys.executable, *words, cwd=shop.folder, env=demo)
    assert done.returncode == 1
    assert done.stderr.startswith("error: SHOP_DEMO=1 needs lab/")
    assert done.stderr.count("\n") == 1
