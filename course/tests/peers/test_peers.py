"""Each case on our lock and on its peers; docs/locks-compared.md says the same."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from kazoo.client import KazooClient
from redis import Redis

from course.tests.peers.adapters import ADAPTERS, Adapter
from course.tests.peers.cases import CASES, Case
from course.tests.peers.kazoo_cases import KAZOO_CASES, Kazoo, KazooCase, Ours
from locking.tests.needs import require
from locking.tests.other_servers import ZooKeeper

# The cases leave locks held.
pytestmark = [
    pytest.mark.filterwarnings("ignore:the lease of lock:ResourceWarning"),
    pytest.mark.usefixtures("dropped_leases"),
]

DOCUMENT = Path(__file__).parents[3] / "docs" / "locks-compared.md"


def expected(case: Case) -> tuple[str, str, str]:
    return case.ours, case.redis_py, case.python_redis_lock


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.what)
@pytest.mark.parametrize("place", range(3), ids=[each.name for each in ADAPTERS])
def test_a_library_does_what_is_said_of_it(valkey_server, valkey: Redis, case: Case, place: int):
    # As the libraries themselves advise: a pop that blocks outlasts redis-py's own time-out.
    client = Redis.from_url(valkey_server.endpoint, socket_timeout=None)
    kept: list[Adapter] = []

    def make(*arguments) -> Adapter:
        kept.append(ADAPTERS[place](client, *arguments))
        return kept[-1]

    assert case.play(client, partial(make)) == expected(case)[place]
    client.close()


@pytest.fixture(scope="module")
def zookeeper() -> Iterator[KazooClient]:
    require(ZooKeeper.need)
    with ZooKeeper() as server:
        client = KazooClient(server.endpoint)
        client.start(timeout=30)
        yield client
        client.stop()
        client.close()


@pytest.mark.parametrize("case", KAZOO_CASES, ids=lambda case: case.what)
def test_kazoo_does_what_is_said_of_it(zookeeper: KazooClient, case: KazooCase):
    assert case.play(Kazoo(zookeeper)) == case.kazoo


@pytest.mark.parametrize("case", KAZOO_CASES, ids=lambda case: case.what)
def test_ours_does_what_is_said_of_it_beside_kazoo(valkey: Redis, case: KazooCase):
    assert case.play(Ours(valkey)) == case.ours


def test_the_document_has_every_case_as_it_is():
    cells = {
        tuple(cell.strip() for cell in line.strip("| \n").split(" | "))
        for line in re.findall(r"^\|.*\|$", DOCUMENT.read_text(), flags=re.MULTILINE)
    }
    rows = {tuple(part for part in row if part) for row in cells}
    for case in CASES:
        assert (case.what, *expected(case), *filter(None, [case.why])) in rows
    for each in KAZOO_CASES:
        assert (each.what, each.ours, each.kazoo, *filter(None, [each.why])) in rows
