"""Each case on our lock and on its peers; docs/locks-compared.md says the same."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path

import pytest
from redis import Redis

from lab.locks.tests.peers.adapters import ADAPTERS, Adapter
from lab.locks.tests.peers.cases import CASES, Case

# The cases leave locks held.
pytestmark = pytest.mark.filterwarnings("ignore:the lease of lock:ResourceWarning")

DOCUMENT = Path(__file__).parents[4] / "docs" / "locks-compared.md"


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


def test_the_document_has_every_case_as_it_is():
    cells = {
        tuple(cell.strip() for cell in line.strip("| \n").split(" | "))
        for line in re.findall(r"^\|.*\|$", DOCUMENT.read_text(), flags=re.MULTILINE)
    }
    for case in CASES:
        why = (case.why,) if case.why else ()
        assert (case.what, *expected(case), *why) in {
            tuple(part for part in row if part) for row in cells
        }
