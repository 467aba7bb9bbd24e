"""What servers say about the watched sale and web processes have counted, each in a thread."""

from __future__ import annotations

import threading
import time
from bisect import bisect_left
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
from django.db import Error, connection
from prometheus_client import Metric
from redis.exceptions import RedisError

from development import StackError
from development.supervisor import Supervisor
from inventory.audit import audit
from inventory.metrics import SECONDS
from inventory.redis import ITEM_LOCK
from inventory.selling.commit import forget_connection
from lab.strategies import CLASSES, DEFAULT
from locking import LockUnavailable
from shop.operating import metric_files

LATE = 1.0
"""Seconds without an answer to a question after which a server counts as away."""

AWAY: tuple[type[Exception], ...] = (
    Error,
    RedisError,
    LockUnavailable,
    OSError,
    ValueError,
    StackError,
)
"""That a source does not answer. A metrics file may be half deleted: the next reading goes on."""


@dataclass(frozen=True, slots=True)
class Reading:
    """What a source says at one moment.

    Attributes:
        up: it has answered lately.
        value: its last answer, which may be old.
        silent: seconds since that answer.
    """

    up: bool
    value: dict[str, Any]
    silent: float


@dataclass(slots=True)
class Source:
    """Reads one server again and again.

    A thread for each, so that a server that hangs delays only its own figures.

    Attributes:
        read: returns the answer, or raises one of `AWAY`.
        pause: returns the seconds until the next reading.
    """

    read: Callable[[], dict[str, Any]]
    pause: Callable[[], float]
    _value: dict[str, Any] = field(default_factory=dict)
    _started: float = field(default_factory=time.monotonic)
    _answered: float | None = None
    _asked: float | None = None
    _failed: bool = False
    _end: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def start(self) -> None:
        """Start to read."""
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop, and wait for the current reading."""
        self._end.set()
        if self._thread is not None:
            self._thread.join()

    def step(self) -> None:
        """Read once."""
        self._asked = time.monotonic()
        try:
            self._value = self.read()
            self._answered, self._failed = time.monotonic(), False
        except AWAY:
            self._failed = True
        finally:
            self._asked = None

    def now(self) -> Reading:
        """Return the last answer, and whether the server still answers."""
        answered, asked, now = self._answered, self._asked, time.monotonic()
        silent = now - (self._started if answered is None else answered)
        # Nobody is late who was not asked: on a busy machine this thread may have to wait.
        late = asked is not None and now - asked >= LATE
        return Reading(answered is not None and not late and not self._failed, self._value, silent)

    def _run(self) -> None:
        try:
            while not self._end.is_set():
                self.step()
                self._end.wait(self.pause())
        finally:
            connection.close()  # this thread's, if it asked the database


def read_lock(item: int) -> dict[str, Any]:
    """Return the lock of an item, read in one command; also of none, 0: Redis answers.

    Raises:
        RedisError, LockUnavailable: Redis does not answer.
    """
    status = ITEM_LOCK.make(item).status()
    return {
        "holder": _pid(status.owner) if status.owner else None,
        "token": status.token,
        "remaining": round(status.remaining, 2),
        "lease": ITEM_LOCK.lease,
        "waiters": [_pid(waiter) for waiter in status.waiters],
    }


def _pid(owner: str) -> str:
    """Return the process id of an owner's name, "host/process id"."""
    return owner.rpartition("/")[2]


SALE = """
SELECT sale.id, item.id, product.name,
       (SELECT json_object_agg(language, name) FROM shop_producttext
        WHERE product_id = product.id AND name <> ''),
       coalesce(strategy.name, %(default)s),
       sale.paused,
       item.total, item.available, item.reserved, item.fence,
       extract(epoch FROM sale.starts_at - now())::float,
       extract(epoch FROM sale.ends_at - now())::float
FROM shop_sale AS sale
JOIN inventory_item AS item ON item.id = sale.item_id
JOIN shop_product AS product ON product.id = sale.product_id
LEFT JOIN lab_salestrategy AS strategy ON strategy.sale_id = sale.id
WHERE sale.id = coalesce(%(sale)s::bigint, (
    SELECT id FROM shop_sale WHERE starts_at < now() + interval '1 minute'
    ORDER BY id DESC LIMIT 1))
"""
"""Rows by primary key only: it may run several times per second during a sale.

The demo announces a sale every five minutes. The newest one is shown a minute before it opens: a
rush's sale, but not an announced one in the middle of a rush."""

OWED = """
SELECT count(*) FILTER (WHERE queue = ''), count(*) FILTER (WHERE queue = 'mail')
FROM inventory_outboxmessage WHERE done IS NULL AND dead IS NULL
"""

RECENT = """
SELECT sale.id, coalesce(strategy.name, %(default)s), item.total
FROM shop_sale AS sale JOIN inventory_item AS item ON item.id = sale.item_id
LEFT JOIN lab_salestrategy AS strategy ON strategy.sale_id = sale.id
ORDER BY sale.id DESC LIMIT 12
"""

COLUMNS = (
    "id",
    "item",
    "name",
    "names",
    "strategy",
    "paused",
    "total",
    "available",
    "reserved",
    "fence",
    "starts_in",
    "ends_in",
)


class Stock:
    """Reads the watched sale. It is short, so that it tells whether the database answers.

    Args:
        watched: returns the sale's id; None means the newest sale.
    """

    def __init__(self, watched: Callable[[], int | None]) -> None:
        self._watched = watched

    def read(self) -> dict[str, Any]:
        """Return the sale, or None if there is none.

        Raises:
            Error: the database does not answer.
        """
        try:
            return {"sale": self._sale()}
        except Error:
            forget_connection()
            raise

    def _sale(self) -> dict[str, Any] | None:
        with connection.cursor() as cursor:
            cursor.execute(SALE, {"sale": self._watched(), "default": DEFAULT})
            row = cursor.fetchone()
        if row is None:
            return None
        sale = dict(zip(COLUMNS, row, strict=True))
        kind = CLASSES.get(sale["strategy"])
        sale["locked"] = kind is not None and kind.fenced
        sale["oversold"] = max(0, sale["reserved"] - sale["total"])
        return sale


SHARE = 50
"""The audit adds up all reservations of an item, so it rests for this many times its duration: it
costs at most 2 % of one core, however long the sale gets."""


class Books:
    """Reads what takes long: the books of the watched sale's item, pending work, recent sales.

    Args:
        item: returns the item's id; 0 if there is none.
    """

    def __init__(self, item: Callable[[], int]) -> None:
        self._item = item
        self._next = 0.0
        self._value: dict[str, Any] = {"item": 0, "books": {}}

    def read(self) -> dict[str, Any]:
        """Return the last figures, read anew if they are due or another item is watched.

        Raises:
            Error: the database does not answer.
        """
        item = self._item()
        if item != self._value["item"] or time.monotonic() >= self._next:
            started = time.monotonic()
            try:
                self._value = self._read(item)
            except Error:
                forget_connection()
                raise
            self._next = time.monotonic() + SHARE * (time.monotonic() - started)
        return self._value

    def _read(self, item: int) -> dict[str, Any]:
        found = audit([item])
        books: dict[str, Any] = {"problems": found.problems[:3]}
        for book in found.items:
            books |= {"held": book.held, "sold": book.confirmed}
        with connection.cursor() as cursor:
            cursor.execute(OWED)
            outbox, mails = cursor.fetchone()
            cursor.execute(RECENT, {"default": DEFAULT})
            recent = [
                {"id": pk, "strategy": strategy, "total": total}
                for pk, strategy, total in cursor.fetchall()
            ]
        return {"item": item, "books": books, "outbox": outbox, "mails": mails, "recent": recent}


PROGRAMS = ("celery", "mail")
"""Programs that a fault hits and nobody can ask: their supervisor says whether they run."""


class Programs:
    """Reads whether the shop's other programs run.

    Args:
        target: the file that says what faults act on, in the folder of the shop's supervisor.
    """

    def __init__(self, target: Path) -> None:
        self._target = target
        self._gone_since: dict[str, float] = {}

    def read(self) -> dict[str, Any]:
        """Return pid and state by name; nothing in a demo without a target.

        Raises:
            StackError: the supervisor does not answer.
        """
        if not self._target.exists():
            return {}
        supervisor, now, found = Supervisor(self._target.parent), time.monotonic(), {}
        for name in PROGRAMS:
            state = supervisor.state(name)
            up = state.state == "RUNNING"
            since = now if up else self._gone_since.get(name, now)
            self._gone_since[name] = since
            found[name] = {"pid": state.pid, "up": up, "silent": round(now - since, 1)}
        return found


WINDOW = 1.0
"""Seconds that rates are counted over."""

ACCEPTED = {"granted"}
REFUSED = {"sold_out", "limit_reached", "key_reused", "declined"}
"""Outcomes of purchases, as `inventory.metrics` names them; `replayed` is neither. The
others count as failed: nothing is known to be wrong, but the buyer has to try again."""

PERCENTILES = (0.5, 0.99)

TOTALS = ("accepted", "refused", "failed", "grants", "without_lock", "stale")
"""What web processes have counted since they started: purchases by kind, grants of items' locks,
batches that were sold without the lock, writes with an old fencing token that were refused."""


class Processes:
    """Reads the metrics files, and remembers enough of them to tell rates."""

    def __init__(self) -> None:
        self._counted: deque[tuple[float, Counter[object]]] = deque()

    def read(self) -> dict[str, Any]:
        """Return the web processes that live, and the rates of the last second.

        Raises:
            OSError, ValueError: a file could not be read.
        """
        now, sums, web = time.monotonic(), Counter[object](), []
        for process in metric_files.processes():
            if not process.name.endswith(".web"):
                continue
            for metric in process.metrics(accumulate=False):
                _add(sums, metric)
            pid = int(process.name.split(".")[-2])
            state = _state(pid)
            if state is not None:
                gauges = process.gauges()
                web.append(
                    {
                        "pid": str(pid),
                        "state": state,
                        "waiting": int(gauges.get("inventory_waiting", 0)),
                        "without_redis": bool(gauges.get("inventory_degraded")),
                    }
                )
        self._counted.append((now, sums))
        while len(self._counted) > 2 and now - self._counted[1][0] >= WINDOW:
            self._counted.popleft()
        then, before = self._counted[0]
        # The files of a master that started again begin at zero, and a difference of counters has
        # no negative counts: nothing is known yet.
        return {
            "web": web,
            "stale": sums["stale"],
            "totals": {
                **_kinds(sums),
                "grants": sums["asked"] - sums["without_lock"],
                "without_lock": sums["without_lock"],
                "stale": sums["stale"],
            },
            **_rates(sums - before, max(now - then, 0.001)),
        }


SUMS: dict[str, str] = {
    "inventory_stale_token_total": "stale",
    "inventory_without_lock_total": "without_lock",
    "inventory_lock_wait_seconds_bucket": "asked",
    "inventory_batch_size_bucket": "batches",
    "inventory_batch_size_sum": "purchases",
}
"""The names here of what is added up."""


def _add(sums: Counter[Any], metric: Metric) -> None:
    """Add what a process has counted: purchases by outcome and by bucket of seconds, batches."""
    for sample in metric.samples:
        if sample.name == "inventory_purchase_seconds_bucket":
            sums["outcome", sample.labels["outcome"]] += int(sample.value)
            sums[bisect_left(SECONDS, float(sample.labels["le"]))] += int(sample.value)
        elif sample.name in SUMS:
            sums[SUMS[sample.name]] += int(sample.value)


def _state(pid: int) -> str | None:
    """Return whether a process of this machine runs or is stopped; None if it is gone."""
    try:
        status = psutil.Process(pid).status()
    except psutil.NoSuchProcess:
        return None
    if status in {psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD}:
        return None
    return "stopped" if status == psutil.STATUS_STOPPED else "running"


def _kinds(counted: Counter[Any]) -> dict[str, int]:
    """Return how many purchases were accepted, refused or neither."""
    purchases = Counter({key[1]: counted[key] for key in counted if isinstance(key, tuple)})
    del purchases["replayed"]
    accepted = sum(purchases.pop(outcome, 0) for outcome in ACCEPTED)
    refused = sum(purchases.pop(outcome, 0) for outcome in REFUSED)
    return {"accepted": accepted, "refused": refused, "failed": purchases.total()}


def _rates(new: Counter[Any], seconds: float) -> dict[str, Any]:
    """Return what happened per second."""
    kinds = _kinds(new)
    buckets = [new[bucket] for bucket in range(len(SECONDS) + 1)]
    p50, p99 = (percentile(buckets, share) for share in PERCENTILES)
    batches = new["batches"]
    return {
        **{kind: round(number / seconds, 1) for kind, number in kinds.items()},
        "p50": p50,
        "p99": p99,
        "batches": round(batches / seconds, 1),
        "batch": round(new["purchases"] / batches, 1) if batches else None,
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
