"""A development machine: the shop runs, payments succeed, and unsafe migrations are refused."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
import urllib3
from django.core.management.base import CommandError

from development.leftovers import private_folder
from development.management.commands.lint_migrations import all_safe, is_safe
from development.management.commands.run import administrator, run_until_the_web_ends
from development.provider import SaysYes
from development.servers import Server
from shop import payments
from shop.accounts.models import User
from shop.checkout import buy
from shop.conftest import ann, fake_provider, sale, sale_of
from shop.environment import PROJECT
from shop.orders.models import Order
from shop.payments.models import Payment
from shop.payments.provider import provider
from shop.tests.processes import wait_for

__all__ = ["ann", "fake_provider", "sale", "sale_of"]


@pytest.mark.long
def test_it_serves_a_sale_and_an_admin_and_stops_with_ctrl_c():
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
            assert urllib3.request("GET", f"{url}/").status == 200  # with its static files
        finally:
            run.send_signal(signal.SIGINT)
            run.wait(60)


@pytest.mark.django_db
def test_the_first_password_is_shown_until_it_is_changed(tmp_path, monkeypatch):
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


def test_celery_is_started_again_when_it_ends_and_ends_with_the_web(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    web = Script(tmp_path, "until test -e again; do sleep 0.1; done; exit 4")
    celery = Script(tmp_path, "test -e first || { touch first; exit 3; }; touch again; sleep 600")
    web.begin()
    with pytest.raises(CommandError, match="gunicorn ended"):
        run_until_the_web_ends(web, celery)
    assert "Celery ended and is started again" in capfd.readouterr().err
    assert not celery.is_running


def _answers(url: str) -> bool:
    try:
        return urllib3.request("GET", url, retries=False).status == 200
    except urllib3.exceptions.HTTPError:
        return False


@pytest.mark.long
def test_the_sql_of_a_safe_migration_is_read_from_django(django_db_blocker: Any) -> None:
    with django_db_blocker.unblock():  # the linter has a database of its own
        assert all_safe([("accounts", "0001_initial")])


def test_an_unsafe_migration_is_refused_and_a_safe_one_is_not(
    capfd: pytest.CaptureFixture[str],
) -> None:
    drops = is_safe(("shop", "0002_drop"), ["ALTER TABLE shop_sale DROP COLUMN hold;"], atomic=True)
    adds = is_safe(("shop", "0003_add"), ["CREATE TABLE shop_note (id bigint);"], atomic=True)
    said = capfd.readouterr().out
    assert (drops, adds) == (False, True)
    assert "shop/migrations/0002_drop.sql" in said
    assert "ban-drop-column" in said
    assert "0003_add" not in said


@pytest.fixture
def says_yes(settings):
    settings.PAYMENT_PROVIDER = "development.provider.SaysYes"
    provider.cache_clear()
    yield
    provider.cache_clear()


@pytest.mark.usefixtures("says_yes")
@pytest.mark.django_db(transaction=True)
def test_an_order_is_paid_and_refunded_at_once(sale, ann):
    order = Order.objects.get(pk=buy(sale.pk, ann.user.pk, uuid4(), 2).order.pk)
    payments.pay(order)
    payment = Payment.objects.get(order=order)
    assert payment.state == Payment.State.CAPTURED
    known = SaysYes().get(payment.intent)
    assert (known.status, known.order, known.amount) == ("captured", order.pk, order.amount)
    payments.refund(order, None)
    order.refresh_from_db()
    assert (order.status, order.refunded) == ("refunded", payment.amount)


@pytest.mark.django_db
def test_a_process_knows_what_another_one_has_agreed_to():
    intent = SaysYes().create_intent(order=7, amount=999, currency="EUR", key="a:b")
    captured = SaysYes().capture(intent.id, key="c")
    assert (captured.order, captured.amount, captured.currency) == (7, 999, "EUR")
    assert captured.status == "captured"
    assert SaysYes().get(intent.id).status == "requires_capture"
