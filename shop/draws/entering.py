"""Enter a draw, and withdraw: lines of one chain, in which each hash includes the one before.

So the lines of a draw have one order, whichever process writes them, and one writer at a time. It
works as selling does (`inventory/selling`): requests queue in their process, processes queue at the
draw's lock, and the holder writes the lines of its whole queue in one transaction. The lock only
saves work. What decides is the conditional update of the draw's row, in the message that commits:
it requires the number of lines that the hashes were computed for, that the draw is not closed, and
that the sale's window is open by the database's clock at that moment.
"""

from __future__ import annotations

import secrets
import unicodedata
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache, lru_cache
from hashlib import sha256
from typing import Any, LiteralString

from django.db import IntegrityError, InterfaceError, OperationalError, connection

from inventory import conf, sql
from inventory.metrics import LockMetrics
from inventory.outcomes import Busy, OutcomeUnknown, Ticket
from inventory.postgresql.base import lend_connections, plain_cursor
from inventory.redis import DegradableLock
from inventory.selling.commit import Attempts, committing, execute_and_commit
from inventory.selling.queue import CombiningQueue, Turn
from shop.checkout import limiter
from shop.draws.models import Draw, Entry, Place
from shop.draws.verify import after_entry, after_withdrawal, mark_of
from shop.refusals import Refusal

MAX_ENTRIES = 10
"""Entries of a buyer in a draw, of which all but one were withdrawn: each is a line for all."""

MAX_ADDRESS = 500
"""Characters of an address."""

DRAW_LOCK = DegradableLock(
    "draw", lease=2.0, timeout=2.5, counted=LockMetrics("draw_", "locks of draws")
)
"""Lets one process at a time write lines of a draw, as `ITEM_LOCK` does for an item."""

HEAD: LiteralString = """
SELECT draw.lines, draw.head, draw.per_address, clock_timestamp(),
       CASE WHEN clock_timestamp() < sale.starts_at THEN 'not_started'
            WHEN draw.closed IS NOT NULL OR clock_timestamp() >= sale.ends_at THEN 'ended'
            WHEN sale.paused THEN 'paused' END
FROM draws_draw AS draw JOIN shop_sale AS sale ON sale.id = draw.sale_id
WHERE draw.sale_id = %(draw)s"""
LOCKED: LiteralString = " ORDER BY draw.sale_id FOR NO KEY UPDATE OF draw"

# The entries of each buyer, and the addresses that are taken. `OFFSET 0` makes one look into the
# index for each. Without it, a table that has grown by a million rows since its statistics were
# taken would be read as a whole, because that seems to be cheaper.
KNOWN: LiteralString = """;
SELECT entry.* FROM unnest(%(buyers)s::bigint[]) AS wanted (buyer) CROSS JOIN LATERAL (
    SELECT buyer_id, number, id, address, secret, mark, hash, created, withdrawal
    FROM draws_entry WHERE draw_id = %(draw)s AND buyer_id = wanted.buyer OFFSET 0
) AS entry;
SELECT wanted.address FROM unnest(%(addresses)s::bytea[]) AS wanted (address) CROSS JOIN LATERAL (
    SELECT id FROM draws_entry
    WHERE draw_id = %(draw)s AND address = wanted.address AND withdrawal IS NULL OFFSET 0
) AS entry
"""

LOOK: LiteralString = HEAD + KNOWN
LOCK_AND_LOOK: LiteralString = HEAD + LOCKED + KNOWN

# The first part decides; the others depend on its row. `clock_timestamp`, because the transaction
# may have begun within the window, and waited for the row until the window was over.
WRITE: LiteralString = """
WITH line AS (
    SELECT * FROM json_to_recordset(%(rows)s) AS (
        number bigint, buyer bigint, address text, secret text, mark text, hash text,
        entry bigint
    )
), head AS (
    UPDATE draws_draw AS draw SET lines = %(lines)s, head = decode(%(head)s, 'hex')
    FROM shop_sale AS sale
    WHERE draw.sale_id = %(draw)s AND sale.id = draw.sale_id
      AND draw.lines = %(before)s AND draw.closed IS NULL AND NOT sale.paused
      AND sale.starts_at <= clock_timestamp() AND clock_timestamp() < sale.ends_at
    RETURNING draw.sale_id
), entered AS (
    INSERT INTO draws_entry (draw_id, number, buyer_id, address, secret, mark, hash, created)
    SELECT sale_id, number, buyer, decode(address, 'hex'), decode(secret, 'hex'),
           decode(mark, 'hex'), decode(hash, 'hex'), %(now)s
    FROM line CROSS JOIN head WHERE entry IS NULL ORDER BY number
), withdrawn AS (
    UPDATE draws_entry AS entry
    SET withdrawal = line.number, withdrawal_hash = decode(line.hash, 'hex')
    FROM line CROSS JOIN head
    WHERE entry.id = line.entry AND entry.withdrawal IS NULL
    RETURNING entry.number
)
SELECT inventory_require(
    (SELECT count(*) FROM head) = 1
    AND (SELECT count(*) FROM withdrawn) = (SELECT count(entry) FROM line)
)
"""


@dataclass(frozen=True, slots=True)
class Wish:
    """What a buyer wants of a draw.

    Attributes:
        draw: id of the sale.
        buyer: id of the user.
        address: a hash of the address; None if the buyer states none.
        withdraws: to take the entry back, and not to enter.
    """

    draw: int
    buyer: int
    address: bytes | None = None
    withdraws: bool = False


@dataclass(frozen=True, slots=True)
class Receipt:
    """An entry as its buyer knows it; `docs/draws.md` says what can be checked with it.

    Attributes:
        sale: id of the sale.
        buyer: id of the user.
        number: of the entry's line.
        secret: makes the mark one that only the buyer and the shop can compute.
        mark: what the public list says of the entry.
        hash: the running hash after the entry's line.
        created: when it was entered, by the database's clock.
        withdrawal: number of the line that withdrew it; None if there is none.
        new: whether this request made it.
    """

    sale: int
    buyer: int
    number: int
    secret: bytes
    mark: bytes
    hash: bytes
    created: datetime
    withdrawal: int | None = None
    new: bool = False


WishTicket = Ticket[Wish, Receipt]


def enter(draw: int, buyer: int, address: str = "") -> Receipt:
    """Enter a buyer into a draw, or find the entry that they have.

    Args:
        draw: id of the sale.
        buyer: id of the user.
        address: what may enter only once, such as a shipping address.

    Raises:
        Refusal: with its code.
    """
    if len(address) > MAX_ADDRESS or (address and not _plain(address)):
        raise Refusal("invalid_request", detail="`address` has no letters, or too many")
    nonce = _nonce(draw)
    return _ask(Wish(draw, buyer, _hash_of(nonce, address) if address else None))


def withdraw(draw: int, buyer: int) -> Receipt:
    """Withdraw a buyer's entry. Withdrawing again changes nothing.

    Raises:
        Refusal: with its code; `not_found` if there never was an entry.
    """
    _nonce(draw)
    return _ask(Wish(draw, buyer, withdraws=True))


def receipt_of(draw: int, buyer: int) -> tuple[Receipt, int | None, int | None]:
    """Return a buyer's latest entry, its place and the winner's order, as far as there are any.

    Raises:
        Refusal: `not_found`.
    """
    entry = Entry.objects.filter(draw=draw, buyer=buyer).order_by("-number").first()
    if entry is None:
        raise Refusal("not_found")
    receipt = Receipt(
        sale=draw,
        buyer=buyer,
        number=entry.number,
        secret=bytes(entry.secret),
        mark=bytes(entry.mark),
        hash=bytes(entry.hash),
        created=entry.created,
        withdrawal=entry.withdrawal,
    )
    place = Place.objects.filter(entry=entry.pk).values_list("place", "order").first()
    return receipt, *(place or (None, None))


def _ask(wish: Wish) -> Receipt:
    if not limiter().allows(wish.buyer):
        raise Refusal("rate_limited")
    lend_connections()
    try:
        turn = _queue().enter(wish.draw, wish)
        if turn.leads:
            with turn:
                _serve(wish.draw, turn)
        return turn.result()
    except Busy as error:
        raise Refusal("busy") from error
    except OutcomeUnknown as error:
        raise Refusal("outcome_unknown") from error
    except IntegrityError as error:
        # A token outlives a deleted buyer.
        raise Refusal("unauthorized") from error


@lru_cache(maxsize=1000)
def _nonce(draw: int) -> bytes:
    """Return the nonce of a draw, which never changes.

    Raises:
        Refusal: there is no such draw, or it cannot be read.
    """
    try:
        return bytes(Draw.objects.values_list("nonce", flat=True).get(pk=draw))
    except Draw.DoesNotExist:
        raise Refusal("not_found") from None
    except (OperationalError, InterfaceError) as error:
        raise Refusal("busy") from error


@cache
def _queue() -> CombiningQueue[Wish, Receipt]:
    return CombiningQueue(
        max_batch=conf.MAX_BATCH.get(),
        max_waiting=conf.MAX_WAITING.get(),
        max_wait=conf.MAX_WAIT.get(),
        counted=False,
    )


for _each in (conf.MAX_BATCH, conf.MAX_WAITING, conf.MAX_WAIT):
    _each.on_change(_queue.cache_clear)


def _serve(draw: int, turn: Turn[Wish, Receipt]) -> None:
    try:
        with DRAW_LOCK.hold(draw):
            tickets: Sequence[WishTicket] = turn.drain()
            while tickets:
                _write_or_split(draw, tickets)
                # A buyer's second request of a batch is answered by what the first one has written.
                tickets = [ticket for ticket in tickets if ticket.answer is None]
    finally:
        lend_connections()


def _write_or_split(draw: int, tickets: Sequence[WishTicket]) -> None:
    """Write a batch; if one line fails, such as a deleted buyer's, write the others without it."""
    attempts = Attempts()
    try:
        attempts.until_done(lambda: _write(draw, tickets, locked=attempts.locked))
    except (Busy, OutcomeUnknown):
        raise
    except Exception as error:  # noqa: BLE001  # each buyer gets their own error
        if len(tickets) == 1:
            tickets[0].answer = error
            return
        middle = len(tickets) // 2
        _write_or_split(draw, tickets[:middle])
        _write_or_split(draw, tickets[middle:])


def _write(draw: int, tickets: Sequence[WishTicket], *, locked: bool) -> None:
    """Decide a batch by what one message reads, write its lines, and commit.

    Raises:
        ConditionFailed: another process has written, or the window is over; nothing was written.
        CommitUnknown: the connection failed at the commit.
    """
    for ticket in tickets:
        ticket.answer = None
    with committing():
        chain = _look(draw, tickets, locked=locked)
        for ticket in tickets:
            chain.decide(ticket)
        if chain.rows:
            values = {
                "rows": sql.rows(chain.rows),
                "draw": draw,
                "before": chain.lines - len(chain.rows),
                "lines": chain.lines,
                "head": chain.head.hex(),
                "now": chain.now,
            }
            execute_and_commit([(WRITE, values)], locked=locked).close()


def _look(draw: int, tickets: Sequence[WishTicket], *, locked: bool) -> _Chain:
    wishes = [ticket.request for ticket in tickets]
    values = {
        "draw": draw,
        "buyers": [wish.buyer for wish in wishes],
        "addresses": [wish.address for wish in wishes if wish.address],
    }
    with connection.wrap_database_errors, plain_cursor() as cursor:
        cursor.execute(LOCK_AND_LOOK if locked else LOOK, values)
        found = cursor.fetchone()
        assert found is not None  # a draw is never deleted
        cursor.nextset()
        entries = cursor.fetchall()
        cursor.nextset()
        taken = {bytes(address) for (address,) in cursor.fetchall()}
    return _Chain(draw, found, entries, taken)


class _Chain:
    """The end of a draw's chain, as it was read and as a batch continues it.

    Attributes:
        lines: number of lines, those of the batch included.
        head: the running hash after them.
        now: the database's time.
        rows: the lines of the batch, for `WRITE`.
    """

    def __init__(
        self, draw: int, found: Any, entries: Sequence[tuple[Any, ...]], taken: set[bytes]
    ) -> None:
        self.lines, self.head, self._per_address, self.now, self._closed = found
        self._draw = draw
        # In order of their numbers, so the last one of a buyer stays.
        self._latest = {entry[0]: entry[1:] for entry in sorted(entries)}
        self._made = Counter(entry[0] for entry in entries)
        self._taken = taken
        self._changed: set[int] = set()
        self.rows: list[dict[str, Any]] = []

    def decide(self, ticket: WishTicket) -> None:
        """Answer a request; leave it without an answer if its buyer has a line in this batch."""
        wish = ticket.request
        if wish.buyer in self._changed:
            return
        latest = self._latest.get(wish.buyer)
        entry = None if latest is None else self._receipt(wish.buyer, latest)
        if wish.withdraws:
            ticket.answer = self._withdraw(entry, latest)
        elif latest is not None and entry is not None and entry.withdrawal is None:
            same = not wish.address or latest[2] == wish.address
            ticket.answer = entry if same else Refusal("limit_reached")
        else:
            ticket.answer = self._enter(wish)

    def _enter(self, wish: Wish) -> Receipt | Refusal:
        if self._closed:
            return Refusal(self._closed)
        if self._per_address and not wish.address:
            return Refusal("invalid_request", detail="`address` is missing")
        address = wish.address
        if self._made[wish.buyer] >= MAX_ENTRIES or address in self._taken:
            return Refusal("limit_reached")
        secret = secrets.token_bytes(32)
        mark = mark_of(secret, self._draw, wish.buyer)
        self.head = after_entry(self.head, self.lines + 1, mark)
        self._add(
            buyer=wish.buyer,
            address=address.hex() if address else None,
            secret=secret.hex(),
            mark=mark.hex(),
        )
        self._changed.add(wish.buyer)
        if address:
            self._taken.add(address)
        return Receipt(
            self._draw,
            wish.buyer,
            self.lines,
            secret,
            mark,
            self.head,
            self.now,
            new=True,
        )

    def _withdraw(self, entry: Receipt | None, row: Sequence[Any] | None) -> Receipt | Refusal:
        if entry is None or row is None:
            return Refusal("not_found")
        if entry.withdrawal is not None:
            return entry
        if self._closed:
            return Refusal(self._closed)
        self.head = after_withdrawal(self.head, self.lines + 1, entry.number)
        self._add(entry=row[1])
        self._changed.add(entry.buyer)
        return entry

    def _add(self, **line: Any) -> None:
        self.lines += 1
        self.rows.append({"number": self.lines, "hash": self.head.hex(), **line})

    def _receipt(self, buyer: int, entry: Sequence[Any]) -> Receipt:
        number, _, _, secret, mark, running, created, withdrawal = entry
        return Receipt(self._draw, buyer, number, secret, mark, running, created, withdrawal)


def _hash_of(nonce: bytes, address: str) -> bytes:
    return sha256(nonce + _plain(address).encode()).digest()


def _plain(address: str) -> str:
    """Return an address without what buyers write in different ways: case, spaces, commas."""
    folded = unicodedata.normalize("NFKC", address).casefold()
    return "".join(letter for letter in folded if letter.isalnum())
