"""The model of sales on many web nodes keeps the laws that can be worked out by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from inventory.selling.several_items import MAX_ITEMS
from lab.bench.scaling import report
from lab.bench.scaling.fit import check, fit
from lab.bench.scaling.measure import Point, Setup
from lab.bench.scaling.model import Costs, World, simulate

COSTS = Costs(
    web=400e-6,
    database=100e-6,
    web_batch=1e-3,
    database_batch=2e-3,
    redis_batch=1e-4,
    load=0.0,
    wait=2e-3,
)


def test_full_queues_sell_at_the_limit_of_the_items_lock() -> None:
    said = simulate(COSTS, report.cluster(4, 4 * report.FULL), seconds=6)
    assert said.batch == 256
    assert said.rate == pytest.approx(report.limit(COSTS, 256), rel=0.03)


def test_more_nodes_for_the_same_crowd_sell_less_once_the_lock_is_busy() -> None:
    few, many = (simulate(COSTS, report.cluster(nodes, 1000), seconds=4) for nodes in (4, 40))
    assert many.batch < few.batch
    assert many.rate < few.rate


def test_one_process_alone_is_bound_by_its_cpu() -> None:
    alone = World(1, 1, 1, 200, database_cores=8)
    said = simulate(COSTS, alone, seconds=4)
    assert said.rate < 1 / COSTS.web


def test_items_with_few_buyers_each_share_transactions() -> None:
    several = simulate(COSTS, World(1, 2, 2, 128, items=1000))
    assert several.batch > 16
    assert several.rate > 0.5 * simulate(COSTS, World(1, 2, 2, 128)).rate


def test_a_transaction_has_at_most_64_items() -> None:
    # 300 buyers of a million items: hardly any two want the same one.
    said = simulate(COSTS, World(1, 1, 2, 300, items=1_000_000))
    assert said.batch == pytest.approx(MAX_ITEMS, rel=0.02)


def test_one_item_costs_nothing_for_further_items() -> None:
    costs = replace(COSTS, database_item=60.0)
    assert simulate(costs, World(1, 2, 2, 100)) == simulate(COSTS, World(1, 2, 2, 100))


def test_a_sale_is_read_again_where_many_are_sold() -> None:
    costs = replace(COSTS, web_sale=2e-3)
    one, many = (World(1, 2, 2, 128, items=items) for items in (1, 1000))
    assert simulate(costs, one).rate == pytest.approx(simulate(COSTS, one).rate, rel=0.02)
    assert simulate(costs, many).rate < 0.8 * simulate(COSTS, many).rate


@pytest.mark.long
def test_the_fit_finds_the_costs_that_made_the_points() -> None:
    points = []
    for spread in ((2, 2), (30, 30), (30,)):
        said = simulate(COSTS, World(1, len(spread), 2, sum(spread)))
        point = Point(
            Setup(len(spread), 256, sum(spread), fitted=True),
            rate=said.rate,
            batch=said.batch,
            items=1,
            spread=spread,
            web_us=(COSTS.web + COSTS.web_batch / said.batch) * 1e6,
            database_us=(COSTS.database + COSTS.database_batch / said.batch) * 1e6,
            redis_us=COSTS.redis_batch / said.batch * 1e6,
            load_us=0.0,
            wal_bytes=0,
        )
        points.append(point)
    found = fit(points, cores=2)
    assert found.web == pytest.approx(COSTS.web)
    assert found.database_batch == pytest.approx(COSTS.database_batch)
    assert found.pace == 1.0
    # The wait and the held share can stand in for each other, not so the rates.
    assert all(abs(each.error) < 0.1 for each in check(found, points, cores=2))
