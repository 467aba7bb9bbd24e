"""The sold-out hint: lets a process refuse without asking the database.

A register in Redis for each item, holding the level after the newest known change. Levels carry
the change's number from the database, and the register keeps the newest, so a slow writer cannot
put an old "sold out" over a new restock. It lives for seconds only: what a crash leaves behind
ends by itself. A filter, never the truth.
"""

from __future__ import annotations

import time
from functools import cache

from redis import Redis
from redis.exceptions import OutOfMemoryError, RedisError

from inventory import conf
from inventory.outcomes import Level
from inventory.redis import Circuit, Server, circuit, client, server

LIFETIME = 5.0
"""Seconds that a hint may be believed when nothing renews it. A crash between a restock's commit
and its publication costs refusals for this long; a sold-out item costs a transaction a process
this often."""

RETRY = 0.1
"""Seconds between tries of a publication that must not be lost."""

# KEYS[1] the register: a hash of version and available
# ARGV[1] version  ARGV[2] available  ARGV[3] lifetime in ms
# Returns 1 if it was written, 0 if something newer was there.
PUBLISH = """
local known = tonumber(redis.call('HGET', KEYS[1], 'version') or '-1')
if tonumber(ARGV[1]) < known then return 0 end
redis.call('HSET', KEYS[1], 'version', ARGV[1], 'available', ARGV[2])
redis.call('PEXPIRE', KEYS[1], ARGV[3])
return 1
"""


class Hint:
    """The register of levels.

    Args:
        client: connection to Redis; its time-outs bound every call.
        circuit: what every use of this Redis goes through.
        server: whom the client talks to; None if that can never change.
    """

    def __init__(self, client: Redis, circuit: Circuit, server: Server | None = None) -> None:
        self._client = client
        self._circuit = circuit
        self._server = server
        self._publish = client.register_script(PUBLISH)

    def publish(self, item: int, level: Level) -> bool:
        """Say what is left after a committed change; False if that is not known to be there now.

        A newer change was known, or Redis did not answer: then nobody can read an older hint
        either, and it ends by itself.
        """
        return self._circuit.ask(lambda: self._write(item, level), otherwise=False)

    def announce(self, item: int, level: Level) -> None:
        """Say what will be left, just before a change commits that brings units.

        Else somebody could buy one of them while others still refuse on the older hint, and who
        asked again for what they have just got would be told that it was sold out. If the change
        does not commit after all, the hint promises too much for a moment, which costs others a
        look at the database. Tried once: :meth:`publish_surely` comes after the commit.
        """
        self._circuit.ask(lambda: self._replace(item, level), otherwise=None)

    def publish_surely(self, item: int, level: Level) -> None:
        """Return when nobody can read an older hint: this one is there, or the older have ended.

        Takes up to :data:`LIFETIME` seconds while Redis does not answer.
        """
        ended = time.monotonic() + LIFETIME
        while True:
            # Past the circuit: what another caller met a moment ago is no answer to this one.
            try:
                self._replace(item, level)
            except RedisError:
                left = ended - time.monotonic()
                if left <= 0:
                    return
                time.sleep(min(RETRY, left))
            else:
                return

    def read(self, item: int) -> Level | None:
        """The level last published; None if there is none, it is too old, or Redis is away.

        None too for a while after a failover: the new server may have an old hint and not the
        restock that came after it. By then whatever it had has ended.
        """
        level = self._circuit.ask(lambda: self._read(item), otherwise=None)
        # Asked afterwards: it may be this very call that met another server.
        if self._server is not None and self._server.known_for < LIFETIME:
            return None
        return level

    def _replace(self, item: int, level: Level) -> None:
        """Put this level in the place of any older one; a full Redis still deletes."""
        try:
            self._write(item, level)
        except OutOfMemoryError:
            self._client.delete(register_of(item))

    def _write(self, item: int, level: Level) -> bool:
        lifetime = int(LIFETIME * 1000)
        arguments = [level.version, level.available, lifetime]
        return bool(self._publish(keys=[register_of(item)], args=arguments))

    def _read(self, item: int) -> Level | None:
        version, available = self._client.hmget(register_of(item), "version", "available")
        if version is None or available is None:
            return None
        return Level(int(available), int(version))


def register_of(item: int) -> str:
    """The key of an item's register."""
    return f"stock:{{{item}}}"


@cache
def hint() -> Hint:
    """Return the sold-out hints of this process."""
    return Hint(client(), circuit(), server())


conf.REDIS_URL.on_change(hint.cache_clear)
