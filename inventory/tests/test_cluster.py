"""Locks and hints on Redis Cluster, while it serves, fails over, and is gone."""

from __future__ import annotations

import pytest
from redis import RedisCluster

from inventory.outcomes import Level
from inventory.redis import ITEM_LOCK, Nodes, client, server
from inventory.selling.hint import hint, register_of
from locking.tests.servers import free_port
from locking.tests.topologies import cluster_url

__all__ = ["cluster_url"]

ITEMS = range(5)
"""On several nodes."""


def has_tokens() -> list[bool]:
    found = []
    for item in ITEMS:
        with ITEM_LOCK.hold(item) as token:
            found.append(token is not None)
    return found


def test_locks_and_hints_are_kept_on_the_nodes_of_a_cluster(settings, cluster_url: str):
    settings.REDIS_URL = cluster_url
    assert has_tokens() == [True] * len(ITEMS)
    for item in ITEMS:
        assert hint().publish(item, Level(item, 1))
    assert [hint().read(item) for item in ITEMS] == [Level(item, 1) for item in ITEMS]


def test_a_hint_of_a_node_that_has_just_taken_over_is_not_believed(settings, cluster_url: str):
    settings.REDIS_URL = f"{cluster_url},127.0.0.1:1"
    hint().publish(7, Level(0, 1))
    assert hint().read(7) == Level(0, 1)
    cluster, nodes = client(), server()
    assert isinstance(cluster, RedisCluster)
    assert isinstance(nodes, Nodes)
    name = cluster.get_node_from_key(register_of(7)).name
    was = nodes._known.pop(name)
    assert hint().read(7) is None, "the node was a replica until now"
    nodes._known[name] = b"another", was[1]
    assert hint().read(7) is None, "the node was restarted"
    nodes._known[name] = was
    assert hint().read(7) == Level(0, 1)


def test_a_process_can_start_while_no_node_answers_and_goes_on_without_locks(settings):
    settings.REDIS_URL = f"redis+cluster://127.0.0.1:{free_port()},127.0.0.1:{free_port()}"
    assert has_tokens() == [False] * len(ITEMS)
    assert hint().read(7) is None
    assert not hint().publish(7, Level(0, 1))


@pytest.mark.parametrize("url", ["redis+cluster://", "redis+cluster://one:no,two"])
def test_a_cluster_without_an_address_is_refused(url: str):
    from inventory import conf

    assert not conf.REDIS_URL.is_right(url)
