"""The roles of a run's sales, and the places of its buyers among the behaviours."""

from __future__ import annotations

from random import Random

import pytest

from loadtest.purchases import Sale
from loadtest.roles import (
    BRIEF,
    LIMITED,
    MAIN,
    OWN,
    OWN_ROLES,
    TIMED,
    SaleTerms,
    format_sales,
    parse_sales,
    roles_for,
    terms_of,
)
from loadtest.run import NEXT_USER
from loadtest.scenarios import MIXES, choose
from loadtest.shopper import KEPT, KnownOrders, OwnSales

MAIN_TERMS = SaleTerms(40, 2, "guard")


def test_the_terms_of_a_role_are_those_of_the_main_sale_but_for_its_own() -> None:
    assert terms_of(MAIN, MAIN_TERMS) == MAIN_TERMS
    brief = terms_of(BRIEF, MAIN_TERMS)
    assert (brief.stock, brief.limit, brief.hold, brief.strategy) == (16, 3, 3.0, "guard")
    assert (brief.restock_cancelled, brief.restock_returned) == (False, True)
    assert terms_of(BRIEF, SaleTerms(1, 1, "guard")).stock == 1
    assert terms_of(LIMITED, MAIN_TERMS).limit == 10


def test_own_sales_are_as_small_whatever_the_main_sale_is() -> None:
    for main in (MAIN_TERMS, SaleTerms(100_000, 1, "guard")):
        own = [terms_of(role, main) for role in OWN_ROLES]
        assert [(each.stock, each.limit) for each in own] == [(3, 2), (5, 3)] * len(OWN)


def test_a_pair_of_own_sales_has_one_user_at_a_time() -> None:
    sales = {role: Sale(role, None, 1, 0.0) for role in (MAIN, *OWN_ROLES)}
    own = OwnSales(sales)
    with own.use() as one, own.use() as other, own.use() as none:
        assert none is None
        assert {one, other} == {(f"{a}+{b}", (sales[a], sales[b])) for a, b in OWN}
    with own.use() as again:
        assert again in (one, other)
    with OwnSales({MAIN: sales[MAIN]}).use() as none:
        assert none is None


def test_every_mix_begins_with_the_main_sale_and_all_has_every_role() -> None:
    assert all(roles_for(mix)[0] == MAIN for mix in MIXES)
    assert set(roles_for("all")) == {role for mix in MIXES for role in roles_for(mix)}
    assert TIMED in roles_for("windows")


def test_sales_are_named_by_their_roles() -> None:
    sales = {LIMITED: "7", BRIEF: "8"}
    assert parse_sales(format_sales(sales)) == sales
    assert parse_sales("") == {}


@pytest.mark.parametrize("text", ["7", "limited=", "nothing=7", "main=7", "brief=7,brief=8"])
def test_sales_without_a_role_of_their_own_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a role and a sale's id"):
        parse_sales(text)


@pytest.mark.parametrize("first", [Random(seed).random() for seed in range(20)])
def test_sixty_buyers_play_every_behaviour_that_is_a_fortieth_of_a_mix(first: float) -> None:
    mix = {str(number): 1 for number in range(40)}
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
