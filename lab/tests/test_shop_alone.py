"""Without `lab/`, `loadtest/` and `development/`, a complete shop remains.

Its tests run where it is taken home (`test_take_home.py`).
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from development.embedded import private_servers
from development.ports import next_free
from lab import environment
from lab.stack.stack import serves
from shop.tests.processes import run, succeed, wait_for

pytestmark = [pytest.mark.long, pytest.mark.timeout(300)]

KEPT = (
    *("inventory", "locking", "serving", "shop"),
    *("manage.py", "gunicorn.conf.py"),
)
LEFT_OUT = shutil.ignore_patterns("__pycache__", "*.pyc")


class Shop:
    """A copy of the product in a separate folder, with a production environment."""

    def __init__(self, folder: Path, servers: dict[str, str], port: int) -> None:
        self.folder = folder
        self.url = f"http://127.0.0.1:{port}"
        self.environment = {
            "PATH": os.environ["PATH"],
            "HOME": os.environ.get("HOME", "/"),
            **servers,
            "SECRET_KEY": uuid4().hex + uuid4().hex,
            "ALLOWED_HOSTS": "127.0.0.1",
            "SHOP_HTTPS": "0",
            "SHOP_PORT": str(port),
            "PSP_URL": "http://127.0.0.1:1",
            "PSP_KEY": "key",
            "PSP_WEBHOOK_SECRET": uuid4().hex,
        }

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
        yield Shop(folder, servers.urls.as_environment(), next_free(20_000))


def post(url: str, body: object, **headers: str) -> tuple[int, dict[str, object]]:
    request = urllib.request.Request(
        url,
        data=json.dumps(body).encode(),
        headers={"Content-Type": "application/json", **headers},
    )
    with urllib.request.urlopen(request, timeout=30) as answer:
        return answer.status, json.load(answer)


def test_it_migrates_starts_in_production_and_sells(shop: Shop) -> None:
    shop.run("manage.py", "migrate")
    shop.run("manage.py", "check", "--deploy")
    user = "from shop.accounts.models import User; User.objects.create_user('ann', '', 'pw')"
    shop.run("manage.py", "shell", "-c", user)
    made = shop.run("manage.py", "create_sale", "--stock", "3", "--limit", "2", "--json")
    sale = json.loads(made)["sale"]
    web = subprocess.Popen(
        [sys.executable, "-m", "gunicorn", "-c", "gunicorn.conf.py", "shop.wsgi"],
        cwd=shop.folder,
        env=shop.environment,
    )
    try:
        wait_for(lambda: serves(f"{shop.url}/readyz"), 60)
        _, token = post(f"{shop.url}/api/v1/tokens", {"username": "ann", "password": "pw"})
        key = {"Authorization": f"Bearer {token['token']}", "Idempotency-Key": str(uuid4())}
        path = f"{shop.url}/api/v1/sales/{sale}/orders"
        status, order = post(path, {"quantity": 2}, **key)
        assert (status, order["quantity"]) == (201, 2)
        assert post(path, {"quantity": 2}, **key) == (200, order)
    finally:
        web.terminate()
        web.wait(30)
    books = json.loads(shop.run("manage.py", "audit", "--json"))
    assert books["balanced"]
    assert [(book["available"], book["held"]) for book in books["items"]] == [(1, 2)]


@pytest.mark.parametrize(
    "words",
    [
        ["manage.py", "check"],
        ["-m", "gunicorn", "-c", "gunicorn.conf.py", "shop.wsgi"],
        ["-m", "celery", "-A", "shop", "worker"],
    ],
)
def test_it_refuses_to_be_a_demo_in_one_line(shop: Shop, words: list[str]) -> None:
    demo = {**shop.environment, "SHOP_DEMO": "1"}
    done = run(sys.executable, *words, cwd=shop.folder, env=demo)
    assert done.returncode == 1
    assert done.stderr.startswith("error: SHOP_DEMO=1 needs development/")
    assert done.stderr.count("\n") == 1
