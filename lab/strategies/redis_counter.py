"""An item's stock as a Redis counter that filters purchases; loaded from the database.

No transaction spans Redis and the database. Three rules keep the counter close to the database:

- It is reloaded every few seconds, and before it refuses what the database has. So no error in it
  lasts.
- Units taken from the counter but not yet in the database are on a ticket that expires. If a
  process dies with a ticket, the counter is too low until then; a reload counts it as taken.
- While there are tickets, no purchase is refused without asking the database, which alone knows
  their outcome.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import NamedTuple

from redis import Redis, RedisCluster

from inventory.conf import on_change
from inventory.outcomes import Level, Purchase
from inventory.redis import Circuit, circuit
from shop.redis import client

RELOAD = 3.0
"""Seconds for which a loaded counter is used."""

TICKET = 15.0
"""Seconds for which a ticket counts as taken; longer than a purchase waits in its process. After an
early expiry, the counter admits a buyer whom the guard refuses."""

# In all three scripts: KEYS[1] the counter, a hash of units (left), loaded (the item's version at
# the load) and version (the newest known); KEYS[2] tickets, a hash of "units:expiry in ms".

# ARGV[1] ticket  ARGV[2] units  ARGV[3] lifetime of a ticket in ms
# Returns {what, units left, version}. What: "load": load the counter first; "granted": the units
# are taken; "ask": ask the database, because this ticket or others are open; "refused".
ADMIT = """
local units, version = unpack(redis.call('HMGET', KEYS[1], 'units', 'version'))
if not units then return {'load', 0, 0} end
units = tonumber(units)
if redis.call('HEXISTS', KEYS[2], ARGV[1]) == 1 then return {'ask', units, version} end
if units >= tonumber(ARGV[2]) then
  local now = redis.call('TIME')
  local ends = now[1] * 1000 + math.floor(now[2] / 1000) + ARGV[3]
  redis.call('HINCRBY', KEYS[1], 'units', -ARGV[2])
  redis.call('HSET', KEYS[2], ARGV[1], ARGV[2] .. ':' .. string.format('%.0f', ends))
  redis.call('PEXPIRE', KEYS[2], ARGV[3])
  return {'granted', units - ARGV[2], version}
end
if redis.call('EXISTS', KEYS[2]) == 1 then return {'ask', units, version} end
return {'refused', units, version}
"""

# ARGV[1] available  ARGV[2] version  ARGV[3] lifetime of the counter in ms
# Returns 1, or 0 if the counter was loaded from a newer version.
LOAD = """
local loaded, known = unpack(redis.call('HMGET', KEYS[1], 'loaded', 'version'))
if tonumber(loaded or '-1') > tonumber(ARGV[2]) then return 0 end
local now = redis.call('TIME')
now = now[1] * 1000 + math.floor(now[2] / 1000)
local tickets, flying = redis.call('HGETALL', KEYS[2]), 0
for at = 1, #tickets, 2 do
  local units, ends = string.match(tickets[at + 1], '(%d+):(%d+)')
  if tonumber(ends) < now then redis.call('HDEL', KEYS[2], tickets[at])
  else flying = flying + tonumber(units) end
end
local version = ARGV[2]
if tonumber(known or '-1') > tonumber(version) then version = known end
redis.call('HSET', KEYS[1], 'units', ARGV[1] - flying, 'loaded', ARGV[2], 'version', version)
redis.call('PEXPIRE', KEYS[1], ARGV[3])
return 1
"""

# ARGV[1] version after the commit, 0 if nothing was written; then pairs: ticket, 1 if it was sold
# Returns how many units went back to the counter: unsold units, and sold units that were counted
# twice because the counter was loaded after the commit and before this ticket was settled.
SETTLE = """
local loaded, known = unpack(redis.call('HMGET', KEYS[1], 'loaded', 'version'))
local back = 0
for at = 2, #ARGV, 2 do
  local ticket = redis.call('HGET', KEYS[2], ARGV[at])
  if ticket then
    redis.call('HDEL', KEYS[2], ARGV[at])
    local sold = ARGV[at + 1] == '1'
    if loaded and (not sold or tonumber(loaded) >= tonumber(ARGV[1])) then
      back = back + tonumber(string.match(ticket, '%d+'))
    end
  end
end
if loaded then
  redis.call('HINCRBY', KEYS[1], 'units', back)
  if tonumber(known) < tonumber(ARGV[1]) then redis.call('HSET', KEYS[1], 'version', ARGV[1]) end
end
return back
"""


class Admission(NamedTuple):
    """The counter's answer to a purchase.

    Attributes:
        what: "granted", "ask", "refused" or "load"; see `ADMIT`.
        level: the counter's units, and the version of the newest known commit.
    """

    what: str
    level: Level


class Counter:
    """The counters of all items.

    Args:
        client: connection to Redis.
        circuit: the circuit breaker of this Redis.
    """

    def __init__(self, client: Redis | RedisCluster, circuit: Circuit) -> None:
        self._circuit = circuit
        self._admit = client.register_script(ADMIT)
        self._load = client.register_script(LOAD)
        self._settle = client.register_script(SETTLE)

    def admit(self, purchase: Purchase) -> Admission | None:
        """Take a purchase's units from the counter if it has them; return None without Redis."""
        return self._circuit.ask(lambda: self._ask(purchase), otherwise=None)

    def load(self, item: int, level: Level) -> None:
        """Set a counter to the database's value, if Redis answers."""
        arguments = [level.available, level.version, int(RELOAD * 1000)]
        self._circuit.ask(lambda: self._load(keys=_keys(item), args=arguments), otherwise=None)

    def settle(self, item: int, version: int, sold: Iterable[tuple[Purchase, bool]]) -> None:
        """Settle tickets with the outcomes of their purchases; other tickets expire.

        Args:
            item: id of the item.
            version: the item's, after the commit; 0 if nothing was written.
            sold: purchases, and whether the units are sold.
        """
        arguments: list[str | int] = [version]
        for purchase, is_sold in sold:
            arguments += [_ticket(purchase), int(is_sold)]
        self._circuit.ask(lambda: self._settle(keys=_keys(item), args=arguments), otherwise=None)

    def _ask(self, purchase: Purchase) -> Admission:
        what, units, version = self._admit(
            keys=_keys(purchase.item),
            args=[_ticket(purchase), purchase.quantity, int(TICKET * 1000)],
        )
        return Admission(what.decode(), Level(int(units), int(version)))


def _keys(item: int) -> list[str]:
    return [f"preload:{{{item}}}", f"preload:{{{item}}}:tickets"]


def _ticket(purchase: Purchase) -> str:
    # A repeated key has the same ticket, so it takes units from the counter once.
    return f"{purchase.buyer}:{purchase.key.hex}"


@cache
def counter() -> Counter:
    """Return the counters of this process."""
    return Counter(client(), circuit())


on_change("REDIS_URL", counter.cache_clear)
