"""What the web processes have counted, and how they are: from their metrics files."""

from __future__ import annotations

import time
from collections import Counter, defaultdict, deque
from typing import Any

import psutil

from inventory.metrics import SECONDS
from shop.operating.metrics import files

ERRORS: tuple[type[Exception], ...] = (OSError, ValueError)
"""A file may be half deleted; the next reading finds the rest."""

WINDOW = 1.0
"""Seconds that rates are counted over."""

ACCEPTED = {"granted"}
REFUSED = {"sold_out", "limit_reached", "key_reused", "declined"}
"""Outcomes of purchases, as `inventory.metrics` names them; `replayed` is neither. The
others count as failed: nothing is known to be wrong, but the buyer has to try again."""

PERCENTILES = (0.5, 0.99)


class Counted:
    """Sums over all processes at one moment."""

    def __init__(self) -> None:
        self.at = time.monotonic()
        self.outcomes: Counter[str] = Counter()
        self.seconds = [0] * (len(SECONDS) + 1)
        self.batches, self.purchases = 0, 0.0
        self.stale = 0

    def add(self, snapshot: dict[str, Any]) -> None:
        """Add what a process has counted."""
        for (name, *_), count in snapshot["counters"]:
            if name == "stale_token":
                self.stale += count
        for (name, *labels), counts, total in snapshot["histograms"]:
            if name == "purchase_seconds":
                self.outcomes[labels[1]] += sum(counts)
                self.seconds = [a + b for a, b in zip(self.seconds, counts, strict=True)]
            elif name == "batch_size":
                self.batches += sum(counts)
                self.purchases += total


class Processes:
    """Reads the files, and remembers enough of them to tell rates."""

    def __init__(self) -> None:
        self._counted: deque[Counted] = deque()

    def read(self) -> dict[str, Any]:
        """Return the web processes that live, and the rates of the last second.

        Raises:
            OSError, ValueError: a file could not be read.
        """
        counted, web = Counted(), []
        for each in files.written():
            if not each.process.endswith(".web"):
                continue
            counted.add(each.snapshot)
            pid = int(each.process.split(".")[-2])
            state = _state(pid)
            if state is not None:
                gauges = each.snapshot["gauges"]
                web.append(
                    {
                        "pid": str(pid),
                        "state": state,
                        "waiting": int(gauges.get("waiting", 0)),
                        "without_redis": bool(gauges.get("degraded")),
                    }
                )
        self._counted.append(counted)
        while len(self._counted) > 2 and counted.at - self._counted[1].at >= WINDOW:
            self._counted.popleft()
        return {"web": web, "stale": counted.stale, **rates(self._counted[0], counted)}


def _state(pid: int) -> str | None:
    """Return whether a process of this machine runs or is stopped; None if it is gone."""
    try:
        status = psutil.Process(pid).status()
    except psutil.NoSuchProcess:
        return None
    if status in {psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD}:
        return None
    return "stopped" if status == psutil.STATUS_STOPPED else "running"


def rates(before: Counted, after: Counted) -> dict[str, Any]:
    """Return what happened per second between two readings."""
    seconds = max(after.at - before.at, 0.001)
    # The files of a master that started again begin at zero: then nothing is known yet.
    kinds: defaultdict[str, float] = defaultdict(float)
    for outcome, count in after.outcomes.items():
        kind = "accepted" if outcome in ACCEPTED else "refused" if outcome in REFUSED else "failed"
        if outcome != "replayed":
            kinds[kind] += max(0, count - before.outcomes[outcome]) / seconds
    buckets = [max(0, b - a) for a, b in zip(before.seconds, after.seconds, strict=True)]
    batches = after.batches - before.batches
    p50, p99 = (percentile(buckets, share) for share in PERCENTILES)
    return {
        **{kind: round(kinds[kind], 1) for kind in ("accepted", "refused", "failed")},
        "p50": p50,
        "p99": p99,
        "batches": round(max(0, batches) / seconds, 1),
        "batch": round((after.purchases - before.purchases) / batches, 1) if batches > 0 else None,
    }


def percentile(buckets: list[int], share: float) -> float | None:
    """Return a percentile in ms, interpolated within its bucket; None without observations."""
    wanted, below = share * sum(buckets), 0
    if not wanted:
        return None
    for number, count in enumerate(buckets):
        if below + count >= wanted:
            low = SECONDS[number - 1] if number else 0.0
            # The last bucket has no upper bound.
            high = SECONDS[number] if number < len(SECONDS) else low
            return round(1000 * (low + (high - low) * (wanted - below) / count), 2)
        below += count
    raise AssertionError("unreachable: the buckets add up to their sum")
