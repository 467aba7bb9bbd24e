"""The keys that are asked for once more, against a shop in memory."""

from __future__ import annotations

import json
import stat
from pathlib import Path

from loadtest.address import address_of
from loadtest.history import OK, Recorder, operations
from loadtest.shops.flash_sale.answers import classify
from loadtest.steps import RunFiles, again, ask_again
from loadtest.steps.files import leave_tokens, take_tokens
from loadtest.tests.fake_shop import FakeShop, serving


def asked(recorder: Recorder, number: int, *, status: int, code: str = "", cart: str = "") -> None:
    recorder.invoke(
        f"c#{number}",
        "order",
        client="c",
        buyer=f"buyer {number}",
        sale="1",
        item="7",
        key=f"key {number}",
        quantity=1,
        cart=cart,
    )
    order = str(number) if status == 201 else None
    outcome = classify(status, code, order)
    recorder.complete(f"c#{number}", outcome, status=status, code=code, order=order)


def test_keys_of_every_kind_are_chosen_and_not_more_than_wanted(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "h.jsonl")
    for number in range(200):
        asked(recorder, number, status=409, code="sold_out")
    asked(recorder, 200, status=201)
    asked(recorder, 201, status=0, code="timeout")
    asked(recorder, 202, status=409, code="sold_out", cart="key 202")
    recorder.close()
    chosen = again.sample([recorder.path], seed=1)
    kinds = [each.kind for _, each in chosen]
    assert {kind: kinds.count(kind) for kind in kinds} == {
        "fail": again.EACH,
        "ok": 1,
        "info": 1,
        "cart": 1,
    }
    assert chosen == again.sample([recorder.path], seed=1)


def test_of_a_long_history_a_part_is_considered(tmp_path: Path, monkeypatch) -> None:
    recorder = Recorder(tmp_path / "h.jsonl")
    for number in range(60):
        asked(recorder, number, status=409, code="sold_out")
    recorder.close()
    monkeypatch.setattr(again, "BYTES", recorder.path.stat().st_size // 3)
    assert 0 < len(again.sample([recorder.path], seed=1)) < 60


def test_the_same_key_is_asked_in_its_buyers_name_and_recorded(tmp_path: Path) -> None:
    files, shop = RunFiles(tmp_path), FakeShop(stock=5)
    recorder = Recorder(tmp_path / "1.1.jsonl")
    with serving(shop) as url:
        address = address_of(url)
        first = shop.order("b1", "key 0", 1)[1]["id"]
        asked(recorder, 0, status=0, code="timeout")
        asked(recorder, 1, status=409, code="sold_out")
        asked(recorder, 2, status=409, code="sold_out")
        recorder.close()
        # Of the third buyer nobody knows the token.
        leave_tokens(recorder.path, {"buyer 0": "b1", "buyer 1": "b2"})
        ask_again(files, files.histories(), address, seed=1)
    found = {each.key: each for each in operations(files.again)}
    assert set(found) == {"key 0", "key 1"}
    repeated = found["key 0"]
    assert (repeated.status, repeated.order, repeated.outcome) == (200, first, OK)
    assert (repeated.buyer, repeated.attempt, repeated.sale) == ("buyer 0", 2, "1")
    assert found["key 1"].status == 201
    # Calls have names of their own in the whole run.
    assert len({each.call for each in operations(*files.histories())}) == 5


def test_tokens_are_for_this_user_only_and_read_once(tmp_path: Path) -> None:
    leave_tokens(tmp_path / "1.1.jsonl", {"a": "1"})
    leave_tokens(tmp_path / "2.1.jsonl", {"b": "2"})
    (tmp_path / "3.1.tokens").write_text(json.dumps({"c": "3"})[:4])
    assert stat.S_IMODE((tmp_path / "1.1.tokens").stat().st_mode) == 0o600
    assert take_tokens(tmp_path) == {"a": "1", "b": "2"}
    assert take_tokens(tmp_path) == {}


def test_nobody_is_asked_where_no_tokens_are(tmp_path: Path) -> None:
    files = RunFiles(tmp_path)
    ask_again(files, [], ("127.0.0.1", 1), seed=1)
    assert list(operations(files.again)) == []
