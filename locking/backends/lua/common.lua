-- Functions shared by the scripts of all locks.  A script inserts them with `-- @common` after its
-- uncontended path, so that this path does not pay for them.
--
-- KEYS[1] lock   the holder or holders; the format depends on the kind of lock
-- KEYS[2] fence  string, the last fencing token minted
-- KEYS[3] queue  list of waiters, the next holder first
-- KEYS[4] alive  sorted set, waiter -> server time in ms until which it counts as alive
--
-- A holder is "token:owner".  A waiter is "f10000:token:owner": the letter of its mode, the lease
-- it requests in ms, and the holder that it will become.  Each waiter blocks on its own wake-up
-- list, KEYS[1] .. ":wake:" .. token.  That key is not declared, because a release learns only
-- while it runs who is next; it shares the hash tag, so it is on the same cluster node.

-- The counter may expire, because a lost one restarts from the clock; so unused names leak no keys.
-- One hour is longer than any clock step that an NTP daemon or a failover causes.
local FENCE_TTL_MS = 3600000
-- A waiter refreshes this every slice (2 s); it counts as dead after missing two.
local ALIVE_MS = 5000

local clock = redis.call('TIME')
local now_us = clock[1] * 1000000 + clock[2]
local now_ms = math.floor(now_us / 1000)

-- Lua numbers are doubles: exact up to 2^53, but abbreviated unless formatted.
local function digits(number)
  return string.format('%.0f', number)
end

local function mint()
  local last = tonumber(redis.call('GET', KEYS[2]) or 0)
  local fence = digits(math.max(last + 1, now_us))
  redis.call('SET', KEYS[2], fence, 'PX', FENCE_TTL_MS)
  return fence
end

local function enqueue(waiter)
  if redis.call('ZADD', KEYS[4], now_ms + ALIVE_MS, waiter) == 1 then
    redis.call('RPUSH', KEYS[3], waiter)
  end
  redis.call('PEXPIRE', KEYS[3], 2 * ALIVE_MS)
  redis.call('PEXPIRE', KEYS[4], 2 * ALIVE_MS)
end

local function place_of(waiter)
  local before = redis.call('LPOS', KEYS[3], waiter)
  return before and before + 1 or 0
end

local function wake_list(holder)
  return KEYS[1] .. ':wake:' .. string.match(holder, '^[^:]*')
end

-- A message is "fence:server time in us"; fence 0 means: try again.
local function wake(holder, fence, lease_ms)
  local list = wake_list(holder)
  redis.call('RPUSH', list, fence .. ':' .. digits(now_us))
  redis.call('PEXPIRE', list, lease_ms)
end

local function leave_queue(waiter, holder)
  if redis.call('ZREM', KEYS[4], waiter) == 1 then
    redis.call('LREM', KEYS[3], 0, waiter)
  end
  redis.call('DEL', wake_list(holder))
end

-- Returns the first live waiter as (mode, lease in ms, holder); removes dead waiters before it.
local function first_waiter()
  while true do
    local waiter = redis.call('LINDEX', KEYS[3], 0)
    if not waiter then
      return nil
    end
    local alive_until = redis.call('ZSCORE', KEYS[4], waiter)
    if alive_until and tonumber(alive_until) > now_ms then
      return string.match(waiter, '^(.)(%d+):(.*)$')
    end
    redis.call('LPOP', KEYS[3])
    redis.call('ZREM', KEYS[4], waiter)
  end
end

local function dequeue_first()
  redis.call('ZREM', KEYS[4], redis.call('LPOP', KEYS[3]))
end
