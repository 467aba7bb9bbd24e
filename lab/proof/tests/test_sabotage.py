"""Each sabotage is the bug that its control needs, in a shop that otherwise works."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

import pytest

from inventory import services
from inventory.hooks import AFTER_COMMIT, BEFORE_COMMIT, LOCKED
from lab.proof import sabotage
from lab.proof.sabotage import SABOTAGE, FailpointOrders
from shop.catalogue.models import Sale
from shop.conftest import Buyer
from shop.tests.catalogue import a_sale

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def commit(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Commit a sabotage that ends with the test."""

    def one(name: str) -> None:
        module = import_module(SABOTAGE[name].module)
        # Restored afterwards.
        monkeypatch.setattr(module, SABOTAGE[name].name, getattr(module, SABOTAGE[name].name))
        sabotage.commit(name)

    return one


def test_without_a_name_nothing_is_sabotaged(ann: Buyer, bob: Buyer, sale: Sale) -> None:
    sabotage.commit("")
    assert bob.get(f"orders/{ann.order(sale)}").status_code == 404


def test_a_stranger_sees_and_cancels_an_order(
    commit: Callable[[str], None], ann: Buyer, bob: Buyer, sale: Sale
) -> None:
    commit("stranger")
    order = ann.order(sale)
    assert bob.get(f"orders/{order}").json()["id"] == order
    assert bob.call("POST", f"orders/{order}/cancel", {}).status_code == 200
    assert bob.get("orders/999999999").status_code == 404


def test_an_order_is_opened_and_its_buyer_told_that_the_shop_is_busy(
    commit: Callable[[str], None], ann: Buyer, sale: Sale
) -> None:
    commit("busy")
    key = "0b7e4f1c-3a57-4d0e-9f0a-0b9a6f1f2c3d"
    first, second = (ann.buy(sale, key=key) for _ in range(2))
    assert (first.status_code, first.json()["code"]) == (503, "busy")
    assert second.status_code == 200, "it was opened"
    assert ann.buy(sale).status_code == 201, "most are told the truth"


def test_a_buyer_at_the_limit_is_told_that_one_more_unit_is_left(
    commit: Callable[[str], None], ann: Buyer
) -> None:
    commit("left")
    sale = a_sale(limit=1, stock=3)
    assert ann.buy(sale).status_code == 201
    assert ann.buy(sale).json()["left"] == 1


def test_a_restock_leaves_buyers_refused_as_sold_out(
    commit: Callable[[str], None], ann: Buyer, bob: Buyer
) -> None:
    commit("hint")
    sale = a_sale(stock=1)
    assert ann.buy(sale).status_code == 201
    services.restock(sale.item_id, 1)
    assert bob.buy(sale).json()["code"] == "sold_out"


HIT = """
import sys
from inventory.hooks import hooks
from lab.proof.sabotage import obey
obey(sys.argv[1])
for failpoint in sys.argv[2:]:
    hooks.failpoint(failpoint)
"""


def passes(folder: Path, *points: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", HIT, str(folder), *points])


def test_without_an_order_nothing_happens(tmp_path):
    FailpointOrders(tmp_path)(BEFORE_COMMIT)
    assert list(tmp_path.iterdir()) == []


def test_of_two_processes_one_is_killed_and_the_file_names_it(tmp_path):
    (tmp_path / AFTER_COMMIT).write_text("kill")
    both = [passes(tmp_path, BEFORE_COMMIT, AFTER_COMMIT) for _ in range(2)]
    codes = {process.pid: process.wait(30) for process in both}
    assert sorted(codes.values()) == [-signal.SIGKILL, 0]
    [taken] = tmp_path.iterdir()
    assert codes[int(taken.suffix[1:])] == -signal.SIGKILL


def test_a_stopped_process_goes_on_when_continued(tmp_path):
    (tmp_path / LOCKED).write_text("stop")
    process = passes(tmp_path, LOCKED)
    pid, status = os.waitpid(process.pid, os.WUNTRACED)
    assert (pid, os.WIFSTOPPED(status)) == (process.pid, True)
    process.send_signal(signal.SIGCONT)
    assert process.wait(30) == 0
