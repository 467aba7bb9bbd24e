"""The sold-out hint, which lets a process refuse without a query.

Redis holds one register per item with the level after the newest known change. Levels carry the
database's change number and the register keeps the newest, so a slow writer cannot overwrite a
restock with an old "sold out". A register expires after seconds, which cleans up after a crash.
The hint only filters; the database decides.
"""

from __future__ import annotations

import time
from functools import cache
from typing import NamedTuple

from redis import Redis, RedisCluster
from redis.exceptions import OutOfMemoryError

from inventory import conf
from inventory.outcomes import Level
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

# Returns 2 if it was written over "sold out", 1 if otherwise, 0 if a newer level was there.
PUBLISH = """
local known = redis.call('HMGET', KEYS[1], 'version', 'available')
if tonumber(ARGV[1]) < tonumber(known[1] or '-1') then return 0 end
redis.call('HSET', KEYS[1], 'version', ARGV[1], 'available', ARGV[2])
redis.call('PEXPIRE', KEYS[1], ARGV[3])
return known[2] == '0' and 2 or 1
"""


REPLACED_SOLD_OUT = 2
"""Of :data:`PUBLISH`."""


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
        :meth:`publish_with_retry` follows the commit.
        """
        self._circuit.ask(lambda: self._replace(item, level), otherwise=None)

    def publish_with_retry(self, item: int, level: Level) -> None:
        """Publish a level; return when no reader can get an older one.

        Takes up to :data:`LIFETIME` seconds while Redis does not answer, until older hints expire.
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
        """Return the level of :meth:`look`."""
        seen = self.look(item)
        return None if seen is None else seen.level

    def look(self, item: int) -> Sighting | None:
        """Return the level last published; None if absent, expired, or Redis does not answer.

        None also for :data:`LIFETIME` after a failover: the new server may hold a hint from before
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


def register_of(item: int) -> str:
    """Return the key of an item's register."""
    return f"stock:{{{item}}}"


@cache
def hint() -> Hint:
    """Return the sold-out hints of this process."""
    return Hint(client(), circuit(), server())


conf.REDIS_URL.on_change(hint.cache_clear)
