"""The result card shows what the database has next to the answers that the buyers got."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest
from django.utils import translation

from lab.models import UnenforcedItem
from lab.room.card import JUDGING, card_of, counted_at_once
from loadtest.checker.report import result
from loadtest.files import RunFolder
from loadtest.history import FAIL, OK, Operation, Recorder
from loadtest.run_plan import RunPlan
from shop.checkout import buy

pytestmark = pytest.mark.django_db(transaction=True)

LOOK = "python3 manage.py dbshell"


@pytest.fixture
def files(tmp_path):
    """A rush of one buyer who got an order and one who got the answer that the sale is sold out."""
    folder = tmp_path / "1"
    folder.mkdir()
    recorder = Recorder(folder / "w0.jsonl")
    for buyer, outcome, code in (("ann", OK, ""), ("bob", FAIL, "sold_out")):
        call = Operation(1, f"{buyer}#1", "order", buyer, buyer, buyer, 1, "1", "7", 1)
        recorder.invoke(call)
        recorder.complete(call.call, outcome, code=code)
    recorder.close()
    return RunFolder(folder)


def test_card_shows_an_oversell_that_no_buyer_was_told(sale_of, ann, files):
    sale = sale_of(stock=3)
    plan = RunPlan(buyers=2, seed=1, stock=3, sale=str(sale.pk))
    buy(sale.pk, ann.user.pk, uuid4(), 2)
    verdict_document = counted_at_once(files, plan, LOOK, handovers=4)
    ends = {"buyers": 2, "got": 1, "sold_out": 1, "refused": 0, "no_answer": 0}
    books = {"units": 3, "taken": 2, "oversold": 0, "handovers": 4}
    assert (verdict_document["verdict"], verdict_document["result"]) == (JUDGING, ends | books)
    UnenforcedItem.add(sale.item_id)
    type(sale.item).objects.filter(pk=sale.item_id).update(total=1, available=0)
    verdict_document = counted_at_once(files, plan, LOOK, handovers=4)
    assert (verdict_document["verdict"], verdict_document["result"]["oversold"]) == ("fail", 1)


def test_card_is_the_first_section_of_the_page(files):
    plan = RunPlan(buyers=2, seed=1, stock=3, sale="8")
    verdict_document: dict[str, Any] = {
        "title": plan.title,
        "verdict": "pass",
        "headline": ["PROVED"],
        "reason": "",
        "result": {"buyers": 2, "got": 1, "units": 3, "taken": 1, "handovers": 4, "faults": 1},
        "check": {"look": LOOK, "again": "python -m loadtest.checker rush-1"},
    }
    html = card_of(files, plan, verdict_document, "pass")["html"]
    with translation.override("zh-hans"):
        assert card_of(files, plan, verdict_document, "pass")["html"] == html
    assert ">已证明</h2>" in html["zh-hans"]
    verdict_document["check"]["look"] += "\npython3 manage.py audit --sale 8"
    assert html["en"] == result(verdict_document, level=2)
