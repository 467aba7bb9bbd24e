"""P21: histories of buyers who were alone with two sales: a right one, and wrong answers in it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from loadtest.checker import FAIL, PASS, UNKNOWN, judge
from loadtest.checker import snapshot as s
from loadtest.checker.verdict import Finding
from loadtest.shops.flash_sale.specification import Promises
from loadtest.tests.simulated_world import World

SECOND = 10**9

ROWS = (
    s.Item("11", 3, 0, 0, 0, 3),
    s.Item("12", 5, 0, 0, 0, 5),
    s.Sale("1", "11", limit=2, price=100, currency="EUR"),
    s.Sale("2", "12", limit=3, price=7, currency="EUR"),
)


def shown(amount: int, status: str, refunded: int = 0, returned: int = 0) -> dict[str, Any]:
    told = {"amount": amount, "currency": "EUR", "status": status}
    return told | {"refunded": refunded, "returned": returned}


def call(op: str, **values: Any) -> dict[str, Any]:
    return {"op": op, **values}


def bought(key: str, order: str, quantity: int, amount: int, **more: Any) -> dict[str, Any]:
    """A purchase in the first sale that is granted."""
    right = call("order", key=key, sale="1", quantity=quantity, status=201, order=order)
    return right | {"shown": shown(amount, "awaiting_payment"), **more}


def refused(key: str, quantity: int, code: str, **more: Any) -> dict[str, Any]:
    """A purchase in the first sale that is refused."""
    right = call("order", key=key, sale="1", quantity=quantity, status=409, code=code)
    return right | more


SOLD_OUT = {"available": 0, "may_come_back": True}
ONE_LEFT = SOLD_OUT | {"available": 1}
LOOKED = {"amount": 100, "currency": "EUR", "status": "sold_out", "available": 0}
UNANSWERED: dict[str, Any] = {"status": 0, "code": "timeout", "order": None, "shown": None}
HALF_BACK = shown(100, "awaiting_payment", returned=1)

# The calls of a walk and their answers, each 2 s after the one before it.
RIGHT: dict[str, dict[str, Any]] = {
    "buy": bought("k1", "1", 2, 200),
    "above the limit": refused("k2", 1, "limit_reached", told={"left": 0}),
    "above the stock": refused("k9", 2, "sold_out", buyer="b", told=ONE_LEFT),
    "last unit": bought("k3", "2", 1, 100, buyer="b"),
    "sold out": refused("k4", 1, "sold_out", buyer="c", told=SOLD_OUT),
    "sold out at the limit": refused("k5", 3, "limit_reached", buyer="b", told={"left": 1}),
    "look": call("look", sale="1", shown=LOOKED, told=SOLD_OUT),
    "again": bought("k1", "1", 2, 200, status=200),
    "cancel another's": call("cancel", order="1", buyer="b", status=404, code="not_found"),
    "return unpaid": call("refund", order="1", status=409, code="order_awaiting_payment"),
    "cancel too many": call(
        "cancel", order="1", key="p0", sale="1", quantity=3, status=422, code="invalid_quantity"
    ),
    "cancel a part": call("cancel", order="1", key="p1", sale="1", quantity=1, shown=HALF_BACK),
    "cancel it again": call("cancel", order="1", key="p1", sale="1", quantity=1, shown=HALF_BACK),
    "buy what came back": bought("k4", "3", 1, 100, buyer="c"),
    "pay": call("payment", order="1", shown=shown(100, "paid", returned=1)),
    "cancel paid": call("cancel", order="1", status=409, code="order_paid"),
    "return": call("refund", order="1", shown=shown(100, "refund_pending", returned=2)),
    "read": call("read", order="1", shown=shown(100, "refunded", 100, 2)),
    "pay returned": call("payment", order="1", status=409, code="order_refunded"),
    "pay another": call("payment", order="2", buyer="b", shown=shown(100, "paid")),
    "declined": call("payment", order="3", buyer="c", status=409, code="payment_declined"),
    "pay after all": call("payment", order="3", buyer="c", shown=shown(100, "paid")),
    "the other sale": bought("k6", "4", 3, 21, sale="2"),
    "busy": refused("k7", 1, "busy", status=503),
    "buy the last again": bought("k7", "5", 1, 100),
    "pay the last": call("payment", order="5", shown=shown(100, "paid")),
    "all paid": refused("k8", 1, "sold_out", buyer="b", told={"available": 0}),
    "restock": call("restock", key="r1", sale="1", quantity=1, told={"available": 1}),
    "buy what was added": bought("k8", "6", 1, 100, buyer="b"),
}

# What is answered instead, and a part of what the finding says was allowed.
WRONG: dict[str, tuple[str, dict[str, Any], str]] = {
    "limit with too many left": ("above the limit", {"told": {"left": 1}}, "left 0"),
    "too few left": ("above the stock", {"told": SOLD_OUT}, "available 1"),
    "last unit sold out": (
        "last unit",
        refused("k3", 1, "sold_out", buyer="b", told=ONE_LEFT),
        "201, awaiting_payment, amount 100 EUR",
    ),
    "nothing comes back": ("sold out", {"told": {"available": 0}}, "sold_out, available 0, may"),
    "known key sold out": ("again", refused("k1", 2, "sold_out", told=SOLD_OUT), "200, awaiting"),
    "shown as available": ("look", {"told": {"available": 0}}, "sold_out, amount 100"),
    "another's is cancelled": (
        *("cancel another's", {"status": 200, "code": "", "shown": shown(200, "cancelled", 0, 2)}),
        "404, not_found",
    ),
    "part of a wrong amount": (
        *("cancel a part", {"shown": shown(150, "awaiting_payment", returned=1)}),
        "amount 100 EUR",
    ),
    "part twice": (
        *("cancel it again", {"shown": shown(0, "cancelled", returned=2)}),
        "awaiting_payment, amount 100 EUR",
    ),
    "other order": ("buy what came back", {"order": "2"}, "201"),
    "cancelled by word": (
        *("cancel paid", {"status": 200, "code": "", "shown": shown(100, "paid", returned=1)}),
        "409, order_paid",
    ),
    "refunded too early": ("return", {"shown": shown(100, "refunded", 0, 2)}, "refund_pending"),
    "refunded too much": ("read", {"shown": shown(100, "refunded", 200, 2)}, "refunded 100"),
    "sold out after a restock": (
        *("buy what was added", refused("k8", 1, "sold_out", buyer="b", told={"available": 0})),
        "201",
    ),
    "comes back though paid": ("all paid", {"told": SOLD_OUT}, "409, sold_out, available 0"),
}


def finding(folder: Path, calls: dict[str, dict[str, Any]]) -> Finding:
    """Judge the calls; `after` says how long after the end of the one before it one begins."""
    world, now = World(rows=list(ROWS), tick=1), 0
    for values in calls.values():
        asked: dict[str, Any] = {"buyer": "a", "key": "", "quantity": 0, "sale": None, "item": None}
        asked |= {"status": 200, "walk": "one+other/a", **values}
        start = now + asked.pop("after", 2 * SECOND)
        now = start + SECOND // 10
        world.call(start, now, **asked)
    files = world.write(folder)
    return judge(files, properties=["P21"], specification=Promises)["P21"]


def test_answers_that_the_contract_allows_pass(tmp_path: Path) -> None:
    judged = finding(tmp_path, RIGHT)
    assert (judged.verdict, judged.detail) == (PASS, "28 answers in 1 walk, each as promised")


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_answer_is_found_with_what_was_allowed(name: str, tmp_path: Path) -> None:
    step, wrong, allowed = WRONG[name]
    right = {"shown": None, "told": None, "order": None} if "op" in wrong else {}
    judged = finding(tmp_path, RIGHT | {step: RIGHT[step] | right | wrong})
    assert judged.verdict == FAIL
    said, _, instead = judged.detail.partition("; allowed: ")
    assert allowed in instead
    assert f", {RIGHT[step]['op']}" in said


def test_a_cart_is_bought_whole_and_known_again(tmp_path: Path) -> None:
    order = shown(214, "awaiting_payment")

    def cart(status: int, key: str, one: int, code: str = "", **more: Any) -> dict[str, Any]:
        lines = {"1": (one, code), "2": (2, "not_without_another_line" if code else "")}
        about = {"cart": key, "status": status, "after": 0, **more}
        return {
            f"{key} {status} {sale}": call(
                "order", sale=sale, key=f"{key}{sale}", quantity=units, code=said, **about
            )
            | {"call": f"a#{key}{status}.{sale}"}
            for sale, (units, said) in lines.items()
        }

    calls = {
        **cart(201, "c", 2, order="1", shown=order),
        **cart(200, "c", 2, order="1", shown=order),
        **cart(409, "d", 1, "limit_reached", told={"left": 0}),
    }
    assert finding(tmp_path, calls).verdict == PASS
    for line in ("d 409 1", "d 409 2"):
        calls[line]["told"] = {"left": 1}
    assert finding(tmp_path, calls).verdict == FAIL


def test_for_a_second_a_process_may_remember_that_units_come_back(tmp_path: Path) -> None:
    soon = RIGHT | {"all paid": RIGHT["all paid"] | {"told": SOLD_OUT, "after": SECOND}}
    assert finding(tmp_path, soon).verdict == PASS


def look_with(available: int) -> dict[str, Any]:
    """A look at the first sale, a second after the call before it."""
    open_with = {"shown": LOOKED | {"status": "open", "available": available}}
    return RIGHT["look"] | open_with | {"told": {"available": available}, "after": SECOND}


def test_for_a_second_a_process_may_show_a_sale_as_it_was(tmp_path: Path) -> None:
    calls = {name: RIGHT[name] for name in ("buy", "last unit")}
    assert finding(tmp_path, calls | {"stale": look_with(1)}).verdict == PASS
    never = finding(tmp_path, calls | {"never so": look_with(2)})
    assert never.verdict == FAIL
    assert "open, amount 100 EUR, available 1" in never.detail
    # Two seconds more, and it is too old.
    calls["sold out"] = RIGHT["sold out"]
    assert finding(tmp_path, calls | {"too late": look_with(1)}).verdict == FAIL


def test_a_stale_look_says_nothing_of_what_is_so_now(tmp_path: Path) -> None:
    calls = {
        "buy": RIGHT["buy"],
        "last unit": RIGHT["last unit"],
        "stale look": look_with(1),
        "sold out": RIGHT["sold out"] | {"after": 1},
    }
    assert finding(tmp_path, calls).verdict == PASS
    calls["sold out"] |= {"told": ONE_LEFT}
    assert finding(tmp_path, calls).verdict == FAIL


def test_a_purchase_without_an_answer_may_have_happened_and_may_still_happen(
    tmp_path: Path,
) -> None:
    lost = bought("k1", "1", 2, 200) | UNANSWERED
    left = {"told": {"available": 1, "may_come_back": True}}
    for after in (
        {"granted": bought("k2", "2", 2, 200, buyer="b")},
        {"refused": refused("k2", 2, "sold_out", buyer="b", **left)},
        {"granted": bought("k1", "1", 2, 200)},
        {"repeated": bought("k1", "1", 2, 200, status=200)},
    ):
        assert finding(tmp_path, {"lost": lost} | after).verdict == PASS, after
    never = refused("k2", 2, "sold_out", buyer="b", told={"available": 0})
    assert finding(tmp_path, {"lost": lost, "never": never}).verdict == FAIL


def test_what_was_answered_as_unknown_is_over_and_what_is_read_afterwards_counts(
    tmp_path: Path,
) -> None:
    calls = {
        "buy": bought("k1", "1", 2, 200),
        "buy the rest": bought("k2", "2", 1, 100, buyer="b"),
        "pay": call("payment", order="1", shown=shown(200, "paid")),
        "unknown": call("payment", order="2", buyer="b", status=503, code="outcome_unknown"),
        "read": call("read", order="2", buyer="b", shown=shown(100, "paid")),
        "all paid": refused("k3", 1, "sold_out", buyer="c", told={"available": 0}),
    }
    assert finding(tmp_path, calls).verdict == PASS
    calls["all paid"]["told"] = SOLD_OUT
    assert finding(tmp_path, calls).verdict == FAIL


def test_a_payment_may_arrive_later_and_what_was_cancelled_meanwhile_goes_back(
    tmp_path: Path,
) -> None:
    calls = {
        "buy": RIGHT["buy"],
        "pay": call("payment", order="1", shown=shown(200, "awaiting_payment")),
        "cancel a part": RIGHT["cancel a part"],
        "paid": call("read", order="1", shown=shown(100, "paid", 0, 1)),
        "back": call("read", order="1", shown=shown(100, "paid", 100, 1)),
    }
    assert finding(tmp_path, calls).verdict == PASS
    calls["back"]["shown"] = shown(100, "paid", 200, 1)
    assert finding(tmp_path, calls).verdict == FAIL


def test_a_run_without_walks_or_with_nothing_but_unanswered_calls_is_not_judged(
    tmp_path: Path,
) -> None:
    assert finding(tmp_path, {}).verdict == UNKNOWN
    lost = {
        str(number): bought(f"k{number}", "1", 1, 100, buyer=str(number), after=1) | UNANSWERED
        for number in range(20)
    }
    told = call("read", order="1", status=404, code="not_found")
    judged = finding(tmp_path, {"told": told} | lost | {"told again": told})
    assert judged.verdict == UNKNOWN
    assert "too much was left unanswered" in judged.detail
