"""What the clients did and what they were told: JSON lines, written before and after each request.

A call leaves two lines, paired by `call`; what a first line does not say is at its default:

    {"event":"invoke","time":81,"call":"w0.7#2","op":"order","client":"w0.7","buyer":"w0.b7",
     "key":"0b54…","attempt":2,"sale":"3","item":"5","quantity":1}
    {"event":"ok","time":95,"call":"w0.7#2","status":201,"code":"","order":"91"}

The event of the second line is what the client may conclude, by the shop's adapter: `ok` is a
promise, `fail` a definite refusal, `info` neither, *unknown*. So is a call without a second line,
which was cut short. Times are nanoseconds of the machine's monotonic clock, which all its processes
share; a history of another machine has a `Clock` next to it. In an open loop a first line may also
say when the buyer meant to ask (`due`), which can be earlier than when they did.

Where a call is about a part of an order, `quantity` is the part's units (0: all of it), `key` its
own and `sale` its line's; the lines of a cart share `cart`, the cart's key. Where an answer shows
an order or a sale, its second line repeats what it shows (of a sale: its price and the units that
are available):

    "shown":{"amount":99900,"currency":"CNY","status":"new","refunded":0,"returned":0}
    "shown":{"amount":99900,"currency":"CNY","status":"open","available":12}

A page's second line names the orders to which the page links (`orders`). The first line of a
request that the shop must refuse says with which HTTP status (`must`).
"""

from __future__ import annotations

import heapq
import os
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from operator import attrgetter
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from loadtest import json_lines

OK, FAIL, INFO = "ok", "fail", "info"
INVOKE = "invoke"

# The client itself could not connect, so the shop never saw the request: a definite no.
CONNECTION_REFUSED = "connection_refused"

# How a client is named that repeats a buyer's call when the load has ended (steps/again.py).
AGAIN = "again."

# Beyond every clock reading: the end of a call that was never answered.
NEVER = 2**63 - 1

# A buyer of an open loop who asks later than this after they meant to is late, in seconds. Shorter
# delays are the scheduler's.
LATE = 0.1

Count = Annotated[int, Meta(ge=0, lt=NEVER)]
"""A number of units or attempts, a status, or a time in ns."""


class HistoryError(ValueError):
    """A history that cannot be read; says the file and the line."""


def combine(outcomes: Iterable[str]) -> str:
    """The outcome of a key from those of its attempts: any ok, else any info, else fail."""
    seen = set(outcomes)
    return OK if OK in seen else INFO if INFO in seen else FAIL


class Shown(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """What an answer shows of an order or a sale; amounts in minor units of the currency.

    Attributes:
        amount: of the order; of a sale, its price.
        currency: of all amounts.
        status: of the order or the sale.
        refunded: of the order, the amount given back.
        returned: of the order, the units given back.
        available: of the sale, the units for sale.
    """

    amount: int
    currency: str
    status: str
    refunded: int | None = None
    returned: int | None = None
    available: int | None = None


class Receipt(Struct, frozen=True, forbid_unknown_fields=True):
    """The receipt of an entry in a draw: its number, the running hash, and what the list says."""

    number: int
    hash: str
    mark: str


class Operation(
    Struct, tag_field="event", tag=INVOKE, rename={"start": "time"}, omit_defaults=True
):
    """A call from its invocation to its end; `end` is `NEVER` and `outcome` info if none came.

    Attributes:
        call: unique in the whole run.
        due: when a buyer of an open loop meant to ask, in ns of the monotonic clock.
        must: the HTTP status with which the shop must refuse it; 0 if it may be granted.
    """

    start: Count
    call: str
    op: str
    client: str
    buyer: str
    key: str = ""
    attempt: Count = 1
    sale: str | None = None
    item: str | None = None
    quantity: Count = 0
    order: str | None = None
    due: int | None = None
    cart: str = ""
    must: int = 0
    end: int = NEVER
    outcome: str = INFO
    status: int = 0
    code: str = ""
    shown: Shown | None = None
    orders: Sequence[str] = ()
    receipt: Receipt | None = None

    @property
    def time(self) -> int:
        """When it was invoked."""
        return self.start


class _End(Struct, tag_field="event", omit_defaults=True):
    """A second line; its tag is the outcome."""

    time: Count
    call: str
    status: Count
    code: str
    order: str | None
    shown: Shown | None = None
    orders: Sequence[str] = ()
    quantity: Count = 0
    receipt: Receipt | None = None


class _Ok(_End, tag=OK):
    pass


class _Fail(_End, tag=FAIL):
    pass


class _Info(_End, tag=INFO):
    pass


Line = Operation | _Ok | _Fail | _Info
_ENDS = {OK: _Ok, FAIL: _Fail, INFO: _Info}
_DECODER = msgspec.json.Decoder(Line)
_ENCODER = msgspec.json.Encoder()


class Clock(Struct, frozen=True):
    """What to add to a machine's monotonic clock to get that of the judging machine, in ns.

    It is known only to be from `low` to `high`: a message took a part of the time between the two.
    A call then began at the earliest and ended at the latest moment that this allows.
    """

    low: int
    high: int

    @property
    def is_same(self) -> bool:
        """Whether it is the same clock: those of two machines differ by more than a message."""
        return self.low <= 0 <= self.high


_SAME = Clock(0, 0)
_CLOCK = msgspec.json.Decoder(Clock)


def set_clock(history: Path, clock: Clock) -> None:
    """Say by which clock a history was written."""
    history.with_suffix(".clock").write_bytes(_ENCODER.encode(clock))


def _clock_of(history: Path) -> Clock:
    path = history.with_suffix(".clock")
    if not path.exists():
        return _SAME
    try:
        clock = _CLOCK.decode(path.read_bytes())
    except (OSError, ValueError) as error:
        raise HistoryError(f"{path}: {error}") from error
    return _SAME if clock.is_same else clock


class Recorder:
    """Writes one history file; one a process, shared by its greenlets or threads.

    An invocation reaches the kernel before `invoke` returns, so that a purchase never exists
    without its key in the history, also when this process is killed. Completions ride along with
    the next invocation: one that is lost turns its call into *unknown*, which is never wrong.
    A call is therefore one `write(2)`, and a killed recorder leaves at most one torn last line.

    Raises `OSError` where the file cannot be written; the request must then not be sent.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND
        self._file: int | None = os.open(self.path, flags, 0o644)
        self._lock = threading.Lock()
        self._unwritten = bytearray()

    def invoke(self, begun: Operation) -> None:
        """Record that a request is about to be sent, and set its start."""
        with self._lock:
            begun.start = time.monotonic_ns()
            self._add(begun)
            self._write()

    def complete(
        self,
        call: str,
        outcome: str,
        *,
        status: int = 0,
        code: str = "",
        order: str | None = None,
        shown: Shown | None = None,
        orders: Sequence[str] = (),
        quantity: int = 0,
        receipt: Receipt | None = None,
    ) -> None:
        """Record how a call ended.

        Args:
            call: its id.
            outcome: what the shop's adapter made of the answer: `OK`, `FAIL` or `INFO`.
            status: the HTTP status; 0 if no answer came.
            code: the shop's word for a refusal, or the client's own for what went wrong.
            order: the order in the answer.
            shown: what the answer shows of the order or the sale.
            orders: those to which a page links.
            quantity: the units that it grants, if they are others than were asked for.
            receipt: of an entry in a draw.
        """
        with self._lock:
            kind, now = _ENDS[outcome], time.monotonic_ns()
            self._add(kind(now, call, status, code, order, shown, orders, quantity, receipt))

    def flush(self) -> None:
        """Hand over the completions that wait for the next invocation."""
        with self._lock:
            self._write()

    def close(self) -> None:
        """Write what is left and close the file; a second call does nothing."""
        with self._lock:
            if self._file is not None:
                self._write()
                os.close(self._file)
                self._file = None

    def _add(self, line: Operation | _End) -> None:
        self._unwritten += _ENCODER.encode(line) + b"\n"

    def _write(self) -> None:
        if self._file is None:
            raise ValueError(f"{self.path} is closed")
        # A short write (a disk almost full) must not glue two lines together later.
        while self._unwritten:
            written = os.write(self._file, self._unwritten)
            del self._unwritten[:written]


def events(*paths: str | Path) -> Iterator[Line]:
    """Merge history files into one stream of lines sorted by time, holding one line a file.

    Lines of another machine may be out of order by as much as its clock is not known.
    A torn last line is what a killed recorder leaves, and is passed over. Raises `HistoryError`
    for any other line that is not a history line, and for a file that is not sorted by time.
    """
    return heapq.merge(*(_events_of(Path(path)) for path in paths), key=attrgetter("time"))


def operations(*paths: str | Path) -> Iterator[Operation]:
    """Pair the lines of all files; finished calls in the order of their ends, then the open ones.

    Holds only the calls that are under way. Raises `HistoryError` for a completion without an
    invocation, or a call id that is used twice at a time.
    """
    pending: dict[str, Operation] = {}
    for line in events(*paths):
        if isinstance(line, Operation):
            if line.call in pending:
                raise HistoryError(f"call {line.call} is invoked twice")
            pending[line.call] = line
            continue
        operation = pending.pop(line.call, None)
        if operation is None:
            raise HistoryError(f"call {line.call} ends at {line.time} without having been invoked")
        yield _completed(operation, line)
    yield from pending.values()


def _events_of(path: Path) -> Iterator[Line]:
    last, clock = -1, _clock_of(path)
    for number, line in json_lines.read(path, _DECODER, HistoryError):
        if line.time < last:
            raise HistoryError(f"{path}:{number}: earlier than the line before it")
        last = line.time
        if isinstance(line, Operation):
            line.start += clock.low
        else:
            line.time += clock.high
        yield line


def _completed(operation: Operation, line: _End) -> Operation:
    operation.end = line.time
    operation.outcome = str(line.__struct_config__.tag)
    operation.status, operation.code = line.status, line.code
    # What the answer names wins over what was asked about (a read of an order that is not there).
    operation.order = line.order or operation.order
    operation.quantity = line.quantity or operation.quantity
    operation.shown, operation.orders = line.shown, line.orders
    operation.receipt = line.receipt
    return operation
