"""What the users of a process share: sales in their roles, carts, times of arrival."""

from __future__ import annotations

import resource
import time
import uuid
from random import Random
from typing import Any
from unittest.mock import Mock

import pytest

from loadtest.address import ALLOWED_HOST, RunImpossible, address_of
from loadtest.client import Connection
from loadtest.full_shop import SaleUnusable
from loadtest.open_files import file_shortage, raise_file_limit
from loadtest.purchases import WITH_ANOTHER, Cart, Sale
from loadtest.sale_roles import (
    BRIEF,
    CART_A,
    CART_B,
    LIMITED,
    MAIN,
    TIMED,
    SaleTerms,
    format_sales,
    parse_sales,
    roles_for,
    terms_of,
)
from loadtest.scenarios import MIXES, Behaviour, choose, fill_cart, insist, parse_weights
from loadtest.shopper import KEPT, KnownOrders
from loadtest.shops import load_full
from loadtest.shops.flash_sale import requests
from loadtest.shops.flash_sale.answers import Answer, sale_of
from loadtest.tests.fake_shop import FakeShop, serving
from loadtest.users import NEXT_USER, Arrivals, find_sale


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("http://127.0.0.1:8000", ("127.0.0.1", 8000)),
        ("http://localhost", ("localhost", 80)),
        ("http://web:8000", ("web", 8000)),
        ("http://[::1]:8000", ("::1", 8000)),
    ],
)
def test_load_is_allowed_for_this_machine_and_named_hosts(
    url: str, address: tuple[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(ALLOWED_HOST, "web")
    assert address_of(url) == address


def test_host_header_has_an_ipv6_address_in_brackets() -> None:
    assert Connection("::1", 8000).authority == "[::1]:8000"


@pytest.mark.parametrize(
    "url",
    ["http://192.0.2.1", "http://[2001:db8::1]", "http://shop.example", "https://127.0.0.1", ""],
)
@pytest.mark.parametrize("named", ["", "web"])
def test_load_is_refused_for_other_hosts(
    url: str, named: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(ALLOWED_HOST, named)
    with pytest.raises(RunImpossible):
        address_of(url)


def test_sale_is_asked_for_again_while_the_shop_is_busy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("loadtest.users.PAUSE", 0.0)
    with serving(FakeShop(busy=2, limit=3)) as url:
        assert find_sale(load_full(url), "1").limit == 3


def test_sale_is_not_missing_if_the_shop_stays_busy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("loadtest.users.PATIENCE", 0.0)
    said = r"does not show sale '1' \(503 busy\)"
    with serving(FakeShop(busy=100)) as url, pytest.raises(RunImpossible, match=said):
        find_sale(load_full(url), "1")


SHOWN: dict[str, Any] = {
    "starts_at": "1999-01-01T00:00:10+00:00",
    "server_time": "1999-01-01T00:00:07Z",
    "limit": 2,
}


def test_opening_is_judged_by_the_servers_clock_alone() -> None:
    sale = sale_of("1", SHOWN, answered=100.2)
    assert sale.opens_at == pytest.approx(103.2)
    assert (sale.limit, sale.item) == (2, None)


def test_buyers_wait_for_the_opening_and_not_longer() -> None:
    Sale("1", None, 1, time.monotonic() - 1).wait_for_opening(lambda _: pytest.fail("it is open"))
    opens_at = time.monotonic() + 0.05
    Sale("1", None, 1, opens_at).wait_for_opening()
    assert time.monotonic() >= opens_at


@pytest.mark.parametrize("missing", SHOWN)
def test_answer_that_lacks_a_field_is_named(missing: str) -> None:
    body = {name: value for name, value in SHOWN.items() if name != missing}
    with pytest.raises(SaleUnusable, match=missing):
        sale_of("1", body, answered=0)


def test_weights_replace_those_of_the_mix() -> None:
    weights = parse_weights("insist=1, buy_once=0,send_twice=0,want_more=0,look_around=0")
    assert {choose(MIXES["rush"], weights, n / 50) for n in range(50)} == {insist}


@pytest.mark.parametrize("text", ["insist", "insist=", "insist=-1", "insist=x", "nobody=1"])
def test_weights_that_make_no_sense_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=text):
        parse_weights(text)


def test_mixes_have_sales_and_all_has_every_behaviour() -> None:
    carts = {name for name, mix in MIXES.items() if fill_cart in mix}
    assert carts == {name for name in MIXES if {CART_A, CART_B} <= {*roles_for(name)}}
    assert all(roles_for(mix)[0] == MAIN for mix in MIXES)
    assert set(roles_for("all")) == {role for mix in MIXES for role in roles_for(mix)}
    assert TIMED in roles_for("windows")


def test_open_files_limit_is_raised_to_the_hard_one() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(soft, 512), hard))
    try:
        assert raise_file_limit() == hard
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_too_few_open_files_for_the_users_are_told() -> None:
    assert file_shortage(2000, 20_000) is None
    assert file_shortage(2000, resource.RLIM_INFINITY) is None
    assert "2000 users need up to 4064" in (file_shortage(2000, 1024) or "")


def moments(seed: int, number: int) -> list[int]:
    start = time.monotonic() - 60
    arrivals = Arrivals(1e6, Random(seed), start)
    dues = [arrivals.wait()[1] for _ in range(number)]
    return [due - dues[0] for due in dues]


def test_arrivals_are_repeated_by_their_seed_at_the_rate() -> None:
    # To a microsecond: they are added to a clock that is read in floating point.
    assert moments(7, 5_000) == pytest.approx(moments(7, 5_000), abs=1_000)
    assert moments(7, 20) != pytest.approx(moments(8, 20), abs=1_000)
    assert 5_000 / (moments(7, 5_000)[-1] / 1e9) == pytest.approx(1e6, rel=0.1)


def test_arrivals_begin_after_the_opening() -> None:
    opens_at = time.monotonic() + 0.05
    number, due = Arrivals(1e6, Random(1), opens_at).wait()
    assert number == 0
    assert time.monotonic_ns() >= due >= opens_at * 1e9


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Mock:
    """The clock of `Arrivals` in seconds, whose pauses take no time."""
    monotonic = Mock(return_value=1000.0)
    monkeypatch.setattr("loadtest.users.time", Mock(monotonic=monotonic))
    return monotonic


def test_arrivals_that_find_no_free_user_count_as_late(
    clock: Mock,
) -> None:
    arrivals = Arrivals(1e6, Random(1), 0.0)
    _, first = arrivals.wait()
    assert arrivals.late == 0
    clock.return_value += 0.15
    number, due = arrivals.wait()
    assert (number, arrivals.late) == (1, 1)
    assert due - first < 100_000_000


def test_arrivals_that_never_began_are_counted(
    clock: Mock,
) -> None:
    arrivals = Arrivals(1e6, Random(1), 0.0)
    arrivals.wait()
    clock.return_value += 0.01
    assert arrivals.overdue(17) == 17
    assert arrivals.overdue(None) > 1_000
    assert Arrivals(0.001, Random(1), 0.0).overdue(None) == 0


def sale(identity: str) -> Sale:
    return Sale(identity, f"item {identity}", 1, 0.0)


def test_cart_lines_are_numbered_in_the_order_of_their_sales() -> None:
    cart = Cart.of({sale("10"): 2, sale("9"): 1})
    assert [line.sale.id for line in cart.lines] == ["9", "10"]
    assert cart.lines[0].key == cart.key
    assert cart.lines[1].key == str(uuid.uuid5(uuid.UUID(cart.key), "1"))
    lines = b'[{"sale": 9, "quantity": 1}, {"sale": 10, "quantity": 2}]'
    assert requests.cart(cart).body == b'{"lines": ' + lines + b"}"


@pytest.mark.parametrize(
    ("body", "codes"),
    [
        ({"code": "sold_out", "sale": 2}, [WITH_ANOTHER, "sold_out"]),
        ({"code": "busy"}, ["busy", "busy"]),
    ],
)
def test_refusal_is_about_the_line_that_it_names_or_all(
    body: dict[str, Any], codes: list[str]
) -> None:
    cart = Cart.of({sale("1"): 1, sale("2"): 1})
    answer = Answer(409, body["code"], body, 0.0, 0)
    assert [cart.code_of(line, answer.code, answer.about) for line in cart.lines] == codes


MAIN_TERMS = SaleTerms(40, 2, "guard")


def test_terms_of_a_role_differ_only_in_its_own() -> None:
    assert terms_of(MAIN, MAIN_TERMS) == MAIN_TERMS
    brief = terms_of(BRIEF, MAIN_TERMS)
    assert (brief.stock, brief.limit, brief.hold, brief.strategy) == (16, 3, 3.0, "guard")
    assert (brief.restock_cancelled, brief.restock_returned) == (False, True)
    assert terms_of(BRIEF, SaleTerms(1, 1, "guard")).stock == 1
    assert terms_of(LIMITED, MAIN_TERMS).limit == 10


def test_sales_are_named_by_their_roles() -> None:
    sales = {LIMITED: "7", BRIEF: "8"}
    assert parse_sales(format_sales(sales)) == sales
    assert parse_sales("") == {}


@pytest.mark.parametrize("text", ["7", "limited=", "nothing=7", "main=7", "brief=7,brief=8"])
def test_sales_without_a_role_of_their_own_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a role and a sale's id"):
        parse_sales(text)


@pytest.mark.parametrize("first", [Random(seed).random() for seed in range(20)])
def test_mix_of_sixty_buyers_includes_every_frequent_behaviour(first: float) -> None:
    mix: dict[Behaviour, int] = {(lambda *_, n=n: None): 1 for n in range(40)}
    places = [(first + user * NEXT_USER) % 1.0 for user in range(60)]
    assert {choose(mix, {}, place) for place in places} == set(mix)


def test_orders_of_others_are_found_and_old_ones_forgotten() -> None:
    known = KnownOrders()
    known.add("a", "0")
    assert known.of_others("a", Random(1), 3) == []
    assert known.of_others("b", Random(1), 3) == ["0"]
    assert known.is_of("a", "0")
    for number in range(1, KEPT + 1):
        known.add("b", str(number))
    assert known.of_others("b", Random(1), 3) == []
    assert not known.is_of("b", "0")
