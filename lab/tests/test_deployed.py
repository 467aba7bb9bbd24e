"""A load test of a shop in production: workers of their own, real accounts, read-only books."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
import pytest

from development.embedded import private_servers
from development.ports import next_free
from development.processes import Beat, Web, Worker, serves
from development.servers import ServerFailed
from lab import environment
from lab.tests.whole_shop import production
from loadtest.checker import EXIT_CODES
from shop.tests.processes import succeed, wait_for

pytestmark = [pytest.mark.long, pytest.mark.timeout(400)]

PYTHON = sys.executable
BUYERS, STOCK = 60, 20
OPENS_IN = 25  # seconds, in which Locust's three processes start on a busy machine


class Redirecting(Web):
    """The shop as it is in production: what comes over plain HTTP is redirected."""

    def ping(self) -> None:
        if not serves(f"{self.endpoint}/readyz", 400):
            raise ServerFailed("the shop does not answer")


class Deployed:
    """A shop in production with its workers, and a read-only account of its database."""

    def __init__(self, variables: dict[str, str], admin: str, folder: Path) -> None:
        self.variables, self.folder, self.admin = variables, folder, admin
        self.url = f"http://127.0.0.1:{variables['SHOP_PORT']}"
        with psycopg.connect(admin, autocommit=True) as database:
            database.execute("CREATE ROLE reader LOGIN PASSWORD 'only-here'")
            database.execute("GRANT pg_read_all_data TO reader")
        server = urlsplit(admin)
        self.books = server._replace(
            netloc=f"reader:only-here@{server.netloc.rpartition('@')[2]}"
        ).geturl()

    def manage(self, *words: str) -> str:
        return succeed(PYTHON, "manage.py", *words, env=self.variables)

    def new_sale(self) -> str:
        made = self.manage(
            "create_sale",
            "--stock",
            str(STOCK),
            "--unlisted",
            "--json",
            "--starts-in",
            str(OPENS_IN),
        )
        return str(json.loads(made)["sale"])

    def load(self, sale: str, name: str, **variables: str) -> tuple[int, dict, str]:
        """Run a master and two workers; the exit code, the verdict, and what the master printed."""
        folder = self.folder / name
        folder.mkdir()
        tokens = folder / "tokens"
        tokens.write_text(self.manage("load_test_accounts", "--count", str(BUYERS)))
        port = str(next_free(21_000))
        locust = (PYTHON, "-m", "locust", "-f", str(environment.PROJECT / "loadtest/locustfile.py"))
        # The shop's own variables stay where the shop is.
        env = {"PATH": os.environ["PATH"]}
        with ExitStack() as cleanup:
            for number in range(2):
                place = folder / f"worker-{number}"
                place.mkdir()
                log = cleanup.enter_context((place / "log").open("w"))
                worker = subprocess.Popen(
                    [*locust, "--worker", "--master-port", port],
                    cwd=place,
                    env=env,
                    stdout=log,
                    stderr=log,
                )
                cleanup.callback(worker.wait, 30)
                cleanup.callback(worker.terminate)
            done = subprocess.run(
                [
                    *locust,
                    "--headless",
                    "--master",
                    "--expect-workers",
                    "2",
                    "--master-bind-port",
                    port,
                    "--host",
                    self.url,
                    "--sale",
                    sale,
                    "--tokens",
                    str(tokens),
                    "--users",
                    str(BUYERS),
                    "--spawn-rate",
                    "100",
                    "--until-done",
                    "--run-time",
                    "120s",
                    "--only-summary",
                    "--runs",
                    str(folder / "runs"),
                ],
                cwd=folder,
                env=env | variables,
                capture_output=True,
                text=True,
                check=False,
                timeout=300,
            )
        found = folder / "runs" / "0001" / "verdict.json"
        assert found.exists(), done.stderr[-3000:]
        return done.returncode, json.loads(found.read_text()), done.stdout + done.stderr


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployed]:
    folder = tmp_path_factory.mktemp("deployed")
    with private_servers(durable=False) as servers, ExitStack() as cleanup:
        port = str(next_free(20_000))
        variables = production(servers.urls, "127.0.0.1", SHOP_PORT=port)
        deployed = Deployed(variables, servers.urls.database, folder)
        deployed.manage("migrate", "--verbosity", "0")
        web = Redirecting(port=int(port))
        worker = Worker(variables["CELERY_BROKER_URL"])
        for process in (web, worker, Beat(folder / "beat-schedule")):
            process.inherited = variables
            cleanup.enter_context(process)
        yield deployed


def test_deployed_shop_is_proved_by_its_read_only_books(shop: Deployed) -> None:
    code, verdict, said = shop.load(shop.new_sale(), "proved", SHOP_DATABASE_URL=shop.books)
    assert (code, verdict["verdict"]) == (0, "pass"), said[-6000:]
    judged = {each["id"] for each in verdict["properties"]}
    assert judged >= {"P1", "P2", "P3", "P4", "P5", "P6", "P7", "P8", "P9", "P10", "P16", "P20"}
    assert {"P11", "P14", "P19"} <= verdict["not_judged"].keys()
    counts = verdict["counts"]
    assert (counts["ok"], counts["orders"], counts["held"]) == (STOCK, STOCK, STOCK)
    assert counts["sold_out"] >= BUYERS - STOCK  # some ask again under another key


def test_deployed_shop_without_books_is_judged_by_answers(shop: Deployed) -> None:
    code, verdict, said = shop.load(shop.new_sale(), "answers")
    assert (code, verdict["verdict"]) == (0, "pass"), said[-6000:]
    assert {each["id"] for each in verdict["properties"]} == {"P1", "P3", "P5", "P8", "P13", "P20"}
    for identity in ("P2", "P4", "P6", "P7", "P10"):
        assert verdict["not_judged"][identity] == "the shop's books cannot be read here"
    counts = verdict["counts"]
    assert (counts["ok"], counts["orders"], counts["held"]) == (STOCK, STOCK, STOCK)


def test_units_that_the_books_have_lost_are_an_oversell(shop: Deployed) -> None:
    sale = shop.new_sale()
    spoiled = threading.Event()

    def spoil() -> None:
        """Take units out of the total as soon as all are sold, past every trigger."""
        with psycopg.connect(shop.admin, autocommit=True) as database:
            database.execute("SET session_replication_role = replica")
            item = f"(SELECT item_id FROM shop_sale WHERE id = {sale})"
            lose = f"UPDATE inventory_item SET total = total - 5 WHERE id = {item}"
            wait_for(lambda: database.execute(f"{lose} AND available = 0").rowcount, 200)
        spoiled.set()

    thread = threading.Thread(target=spoil, daemon=True)
    thread.start()
    code, verdict, said = shop.load(sale, "spoiled", SHOP_DATABASE_URL=shop.books)
    assert spoiled.is_set()
    assert (code, verdict["verdict"]) == (EXIT_CODES["fail"], "fail"), said[-6000:]
    assert "P1" in {each["id"] for each in verdict["properties"] if each["verdict"] == "fail"}
    assert verdict["counts"]["oversold"] == 5
