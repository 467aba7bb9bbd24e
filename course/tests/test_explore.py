"""No schedule of a sample breaks the production locks.

The full search is `explore`; `.ci/nightly` runs it for longer.
"""

from __future__ import annotations

import pytest

from course.simulator.explore import Exploration, Tally, run_chunk
from course.simulator.explored_locks import EXPLORED_LOCKS

# A client that crashes in the simulation drops its lease.
pytestmark = [
    pytest.mark.long,
    pytest.mark.usefixtures("dropped_leases"),
    pytest.mark.filterwarnings("ignore:the lease of lock:ResourceWarning"),
]

SCHEDULES, STEP = 100, 50


@pytest.mark.parametrize("lock", EXPLORED_LOCKS)
def test_no_schedule_breaks_a_production_lock(lock):
    what, total = Exploration(target=EXPLORED_LOCKS[lock]), Tally()
    for first in range(0, SCHEDULES, STEP):
        total.add(run_chunk(what, first, STEP))
        assert total.violations == []
    assert total.overlaps > 0, "no holder was ever late: the search proves nothing"
