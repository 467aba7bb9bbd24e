"""What a web process records of its purchases, and that it runs nothing of it otherwise."""

from __future__ import annotations

from uuid import uuid4

import pytest

from inventory import services
from inventory.hooks import hooks
from lab.room.recorder import Recorder, recording
from loadtest.replay import read_served
from shop.checkout.purchase import buy
from shop.refusals import Refusal
from shop.tests.catalogue import a_buyer

pytestmark = pytest.mark.django_db(transaction=True)


def test_a_process_records_while_the_room_wants_it_and_not_after(sale_of, tmp_path, settings):
    order = tmp_path / "recording"
    settings.LAB_RECORDING = str(order)
    before = services.reserve, hooks.batch
    recorder = Recorder(order)
    assert recorder.look() == 0.0
    assert (services.reserve, hooks.batch) == before
    one, single = sale_of(stock=1), sale_of(strategy="guard")
    with recording(tmp_path):
        assert recorder.look() == 1.0
        keys = [uuid4() for _ in range(3)]
        buy(one.pk, a_buyer().pk, keys[0], 1)
        with pytest.raises(Refusal):
            buy(one.pk, a_buyer().pk, keys[1], 1)  # refused in the queue, by the sold-out hint
        buy(single.pk, a_buyer().pk, keys[2], 1)
        assert recorder.look() == 1.0
    assert recorder.look() == 0.0
    assert (services.reserve, hooks.batch) == before
    buy(single.pk, a_buyer().pk, uuid4(), 1)
    found = read_served(tmp_path.glob("*.served"))
    assert list(found) == [str(key) for key in keys]
    [[sold], [refused], [alone]] = found.values()
    assert sold.begun is not None
    assert sold.queued <= sold.begun <= sold.committed <= refused.queued
    assert (sold.batch, refused.begun, refused.batch) == (1, None, None)
    assert (alone.begun, alone.batch) == (None, None)
    assert alone.queued < alone.committed


def test_an_order_that_a_killed_room_has_left_records_nothing(tmp_path):
    before = services.reserve, hooks.batch
    order = tmp_path / "recording"
    order.write_text(str(tmp_path / "gone"))
    assert Recorder(order).look() == 0.0
    assert (services.reserve, hooks.batch) == before
