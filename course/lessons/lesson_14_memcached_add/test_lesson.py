"""Lesson 14 works, until memcached needs the memory."""

from __future__ import annotations

from course.lessons.lesson_14_memcached_add.lock import MemcachedAddLock
from course.tests.real import FAST, one_at_a_time, schedules
from locking.tests.needs import needs
from locking.tests.other_servers import Memcached


@needs(Memcached.need)
def test_it_lets_one_in_at_a_time_while_nothing_goes_wrong():
    from pymemcache.client.base import Client

    with Memcached() as server:
        clients: list[Client] = []

        def make() -> MemcachedAddLock:
            clients.append(Client(server.endpoint))
            return MemcachedAddLock(clients[-1], "stock", wait_interval=FAST)

        one_at_a_time(make, threads=4)
        for client in clients:
            client.close()


def test_what_breaks_it():
    assert schedules("memcached-add") == {
        "eviction": ("before command 1 of B's acquire: evict memcached",)
    }
