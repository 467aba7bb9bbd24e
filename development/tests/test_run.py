"""A development machine: the shop runs and is paid, and unsafe migrations are refused."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
import urllib3
from django.core.management.base import CommandError

from development.leftovers import private_folder
from development.management.commands.lint_migrations import all_safe, is_safe
from development.management.commands.run import administrator, run_until_the_web_ends
from development.servers import Server
from shop import environment
from shop.accounts.models import User
from shop.environment import PROJECT
from shop.tests import processes
from shop.tests.processes import wait_for


@pytest.mark.long
def test_run_serves_a_sale_and_an_admin_until_ctrl_c():
    # Not in pytest's folder: another run of pytest closes that to the user of PostgreSQL.
    with private_folder() as folder:
        ours = {"SHOP_DEMO", "DATABASE_URL", "REDIS_URL", "CELERY_BROKER_URL", "PYTHONUNBUFFERED"}
        variables = {k: v for k, v in os.environ.items() if k not in ours}
        variables |= {"SHOP_DATA": str(folder), "DJANGO_SETTINGS_MODULE": "development.settings"}
        said = folder / "said"
        with said.open("wb") as output:
            run = subprocess.Popen(
                [sys.executable, "manage.py", "run"],
                cwd=PROJECT,
                env=variables,
                stdout=output,
                stderr=output,
            )
        try:
            wait_for(lambda: b"The admin:" in said.read_bytes() or run.poll() is not None, 90)
            shown = re.search(r"The admin: (\S+)/admin/  (\S+) / (\S+)", said.read_text())
            assert shown, said.read_text()
            url, name, password = shown.groups()
            wait_for(lambda: _answers(f"{url}/readyz"), 60)
            assert urllib3.request("GET", f"{url}/api/v1/sales/1").json()["available"] == 100
            signed_in = urllib3.request(
                "POST", f"{url}/api/v1/tokens", json={"username": name, "password": password}
            )
            assert signed_in.status == 201
            if environment.switch("SHOP_PAYMENTS"):
                assert bought_and_paid(url, signed_in.json()["token"]) == "paid"
                audited = manage(variables, "audit")
                assert "The books balance" in audited
                assert "not checked" not in audited
            assert urllib3.request("GET", f"{url}/").status == 200  # with its static files
        finally:
            run.send_signal(signal.SIGINT)
            run.wait(60)
        if environment.switch("SHOP_PAYMENTS"):
            assert "not checked: payments" in manage(variables, "audit")


def bought_and_paid(url: str, token: str) -> str:
    """Buy a unit and pay it; return the order's status."""
    sent = {"Authorization": f"Bearer {token}", "Idempotency-Key": str(uuid4())}
    order = urllib3.request(
        "POST", f"{url}/api/v1/sales/1/orders", json={"quantity": 1}, headers=sent
    )
    assert order.status == 201, order.data
    paid = urllib3.request(
        "POST", f"{url}/api/v1/orders/{order.json()['id']}/payment", headers=sent
    )
    status: str = paid.json()["status"]
    return status


def manage(variables: Mapping[str, str], *words: str) -> str:
    """Run a command of `manage.py` that must succeed; return its output."""
    done = processes.run(sys.executable, "manage.py", *words, cwd=PROJECT, env=variables)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.django_db
def test_run_shows_the_first_password_until_it_is_changed(tmp_path, monkeypatch):
    monkeypatch.setenv("SHOP_DATA", str(tmp_path))
    shown = administrator()
    assert shown.startswith("  admin / ")
    assert administrator() == shown
    admin = User.objects.get()
    admin.set_password("another one 1")
    admin.save()
    assert administrator() == ""
    admin.delete()
    User.objects.create_superuser("operator", "", "another one 1")
    assert administrator() == ""


class Script(Server):
    name = "script"

    def __init__(self, home: Path, script: str) -> None:
        super().__init__(home)
        self.script = script

    def command(self) -> list[str]:
        return ["sh", "-c", self.script]


def test_run_restarts_celery_and_ends_it_with_the_web(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    web = Script(tmp_path, "until test -e again; do sleep 0.1; done; exit 4")
    celery = Script(tmp_path, "test -e first || { touch first; exit 3; }; touch again; sleep 600")
    with pytest.raises(CommandError, match="gunicorn ended"):
        run_until_the_web_ends(web, celery)
    assert "script ended and is started again" in capfd.readouterr().err
    assert not celery.is_running


def _answers(url: str) -> bool:
    try:
        return urllib3.request("GET", url, retries=False).status == 200
    except urllib3.exceptions.HTTPError:
        return False


@pytest.mark.long
def test_lint_reads_the_sql_of_a_safe_migration(django_db_blocker: Any) -> None:
    with django_db_blocker.unblock():  # the linter has a database of its own
        assert all_safe([("accounts", "0001_initial")])


def test_lint_refuses_only_an_unsafe_migration(
    capfd: pytest.CaptureFixture[str],
) -> None:
    drops = is_safe(("shop", "0002_drop"), ["ALTER TABLE shop_sale DROP COLUMN hold;"], atomic=True)
    adds = is_safe(("shop", "0003_add"), ["CREATE TABLE shop_note (id bigint);"], atomic=True)
    said = capfd.readouterr().out
    assert (drops, adds) == (False, True)
    assert "shop/migrations/0002_drop.sql" in said
    assert "ban-drop-column" in said
    assert "0003_add" not in said
