"""The sold-out hint, which lets a process refuse without a query.

Redis holds one register per item with the level after the newest known change. Levels carry the
database's change number and the register keeps the newest, so a slow writer cannot overwrite a
restock with an old "sold out". A register expires after seconds, which cleans up after a crash.
The hint only filters; the database decides.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

from django.db import Error
from redis import Redis, RedisCluster
from redis.exceptions import OutOfMemoryError

from inventory import conf
from inventory.metrics import metrics
from inventory.models import Reservation
from inventory.outcomes import Level, Purchase, PurchaseTicket, SoldOut
from inventory.redis import NO_ANSWER, Circuit, Nodes, Server, circuit, client, server

LIFETIME = 5.0
"""Seconds that a hint counts without renewal. After a crash between a restock's commit and its
publication, buyers are refused for this long; each process sends one transaction per sold-out item
this often."""

RETRY = 0.1
"""Seconds between attempts of a publication that must succeed."""

TRUST = 0.03
"""Seconds for which a process may refuse without reading the hint again. A change that ends a
sold-out hint takes as long: it waits before its commit, so that no refusal is out of date."""

LOOK_AGAIN = TRUST / 3
"""Seconds between readings of a sold-out item's hint. A busy process may wait twice as long for the
answer, and what it read before must last until then."""

MAX_HOLDERS = 100_000
"""Buyers remembered per item (about 8 MB); with more, refusals query the database."""

MAX_ITEMS = 64
"""Sold-out items remembered per process."""

# Returns 2 if it was written over "sold out", 1 if otherwise, 0 if a newer level was there.
PUBLISH = """
local known = redis.call('HMGET', KEYS[1], 'version', 'available')
if tonumber(ARGV[1]) < tonumber(known[1] or '-1') then return 0 end
redis.call('HSET', KEYS[1], 'version', ARGV[1], 'available', ARGV[2])
redis.call('PEXPIRE', KEYS[1], ARGV[3])
return known[2] == '0' and 2 or 1
"""


REPLACED_SOLD_OUT = 2
"""Of `PUBLISH`."""


class Sighting(NamedTuple):
    """A level that was read.

    Attributes:
        until: of the monotonic clock; until then, no unit is added.
    """

    level: Level
    until: float


class Hint:
    """The register of levels.

    Args:
        client: connection to Redis; its timeouts bound every call.
        circuit: the circuit breaker of this Redis.
        server: tracks which server answers; None if it can never change.
    """

    def __init__(
        self,
        client: Redis | RedisCluster,
        circuit: Circuit,
        server: Server | Nodes | None = None,
    ) -> None:
        self._client = client
        self._circuit = circuit
        self._server = server
        self._publish = client.register_script(PUBLISH)

    def publish(self, item: int, level: Level) -> bool:
        """Publish the level after a committed change; False if it may not be there now.

        False means that a newer change was known or that Redis did not answer. Then readers cannot
        read an older hint either, and it expires.
        """
        return self._circuit.ask(lambda: self._write(item, level) > 0, otherwise=False)

    def announce(self, item: int, level: Level) -> None:
        """Publish the level of a change that adds units, just before its commit.

        Otherwise a buyer could buy a unit while other processes still refuse on the older hint, and
        a repeat of that purchase would be answered "sold out". If the commit fails, the hint
        promises too much for a moment, which costs some queries. Tries once:
        `publish_with_retry` follows the commit.
        """
        self._circuit.ask(lambda: self._replace(item, level), otherwise=None)

    def publish_with_retry(self, item: int, level: Level) -> None:
        """Publish a level; return when no reader can get an older one.

        Takes up to `LIFETIME` seconds while Redis does not answer, until older hints expire.
        """
        ended = time.monotonic() + LIFETIME
        while True:
            # Bypass the circuit breaker: this call must try Redis itself.
            try:
                self._replace(item, level)
            except NO_ANSWER:
                left = ended - time.monotonic()
                if left <= 0:
                    return
                time.sleep(min(RETRY, left))
            else:
                return

    def read(self, item: int) -> Level | None:
        """Return the level of `look`."""
        seen = self.look(item)
        return None if seen is None else seen.level

    def look(self, item: int) -> Sighting | None:
        """Return the level last published; None if absent, expired, or Redis does not answer.

        None also for `LIFETIME` after a failover: the new server may hold a hint from before
        a restock whose publication it missed.
        """
        seen = self._circuit.ask(lambda: self._look(item), otherwise=None)
        # Check afterwards: this very call may have met another server.
        if seen is None or self._server is None:
            return seen
        return None if self._server.known_for(register_of(item)) < LIFETIME else seen

    def _replace(self, item: int, level: Level) -> None:
        """Write this level over any older one, and wait until no reader trusts that one.

        Deletes the register if Redis is full.
        """
        try:
            ended = self._write(item, level) == REPLACED_SOLD_OUT
        except OutOfMemoryError:
            self._client.delete(register_of(item))
            ended = True
        if ended and level.available > 0:
            time.sleep(TRUST)

    def _write(self, item: int, level: Level) -> int:
        lifetime = int(LIFETIME * 1000)
        arguments = [level.version, level.available, lifetime]
        return int(self._publish(keys=[register_of(item)], args=arguments))

    def _look(self, item: int) -> Sighting | None:
        asked = time.monotonic()
        with self._client.pipeline(transaction=False) as pipeline:
            # How long the register lasts comes first: what is read then has lasted as long.
            pipeline.pttl(register_of(item))
            pipeline.hmget(register_of(item), "version", "available")
            lasts, (version, available) = pipeline.execute()
        if version is None or available is None:
            return None
        level = Level(int(available), int(version))
        return Sighting(level, asked + min(TRUST, max(lasts, 0) / 1000))


class BuyersOfItem:
    """Remembers, for each sold-out item, the buyers with a reservation of it.

    A repeated key must still get its order after the item has sold out. While an item stays sold
    out, no new buyer can reserve it, so the set of its buyers is read once each time that it runs
    out. All other buyers are refused without a query.
    """

    def __init__(self) -> None:
        self._known: OrderedDict[int, tuple[int, frozenset[int] | None]] = OrderedDict()

    def of(self, item: int, level: Level) -> frozenset[int] | None:
        """Return the buyers with a reservation, released ones included; None if too many.

        Args:
            item: id of the item.
            level: the level, zero, at which the item was seen before this call: the read then
                includes every reservation made until that change.
        """
        version, buyers = self._known.get(item, (None, None))
        if version != level.version:
            buyers = self._read(item)
            self._known[item] = (level.version, buyers)
            while len(self._known) > MAX_ITEMS:
                self._known.popitem(last=False)
        return buyers

    @staticmethod
    def _read(item: int) -> frozenset[int] | None:
        buyers = Reservation.objects.filter(item=item).values_list("buyer", flat=True)
        found = frozenset(buyers[: MAX_HOLDERS + 1])
        return None if len(found) > MAX_HOLDERS else found


@dataclass(slots=True)
class Refusing:
    """An item that is sold out, from when its hint was read.

    Attributes:
        until: of the monotonic clock: until then, no unit is added.
        buyers: of the item, who may repeat a purchase.
        due: of the monotonic clock: when to read it again.
    """

    until: float
    buyers: frozenset[int]
    due: float


class SoldOutItems:
    """The items that this process has seen sold out.

    Args:
        hint: the sold-out hints.

    Attributes:
        ran_out: the items that were sold out when this process last saw their levels; only these
            are worth a look at the hint.
    """

    def __init__(self, hint: Hint) -> None:
        self._hint = hint
        self._buyers = BuyersOfItem()
        self.ran_out: set[int] = set()
        # Of these, the items of which all but the buyers are refused at once.
        self._refusing: dict[int, Refusing] = {}

    def refuses(self, purchase: Purchase) -> bool:
        """Whether to refuse a purchase at once, by a hint that was read a moment ago."""
        refusing, now = self._refusing.get(purchase.item), time.monotonic()
        if refusing is not None and now >= refusing.due:
            # One request in a while reads it again, without queueing. The others go on being
            # refused by what was read before, also while the answer is under way.
            refusing.due = now + LOOK_AGAIN
            refusing, now = self._look(purchase.item), time.monotonic()
        if refusing is None or now >= refusing.until or purchase.buyer in refusing.buyers:
            return False
        metrics.count("refused_by_hint")
        return True

    def refuse(self, item: int, tickets: Sequence[PurchaseTicket]) -> Sequence[PurchaseTicket]:
        """Refuse the tickets that the hint, read after they queued, allows; return the others."""
        refusing = self._look(item)
        if refusing is None:
            return tickets
        others = []
        for ticket in tickets:
            # It is new enough for all of these: they queued before it was read.
            if ticket.request.buyer in refusing.buyers:
                others.append(ticket)
            else:
                ticket.answer = SoldOut(0)
        metrics.count("refused_by_hint", by=len(tickets) - len(others))
        return others

    def note(self, item: int, level: Level) -> None:
        """Publish the hint that a committed change has sold the item out."""
        self.ran_out.add(item)
        self._hint.publish(item, level)

    def _look(self, item: int) -> Refusing | None:
        """Read an item's hint; None if it does not say sold out, or its buyers cannot be read."""
        seen = self._hint.look(item)
        if seen is None or seen.level.available > 0:
            self.ran_out.discard(item)
            self._refusing.pop(item, None)
            return None
        try:
            buyers = self._buyers.of(item, seen.level)
        except Error:
            return None
        if buyers is None:
            return None
        before = self._refusing.get(item)
        due = before.due if before else time.monotonic() + LOOK_AGAIN
        found = self._refusing[item] = Refusing(seen.until, buyers, due)
        return found


def register_of(item: int) -> str:
    """Return the key of an item's register."""
    return f"stock:{{{item}}}"


@cache
def hint() -> Hint:
    """Return the sold-out hints of this process."""
    return Hint(client(), circuit(), server())


conf.REDIS_URL.on_change(hint.cache_clear)
