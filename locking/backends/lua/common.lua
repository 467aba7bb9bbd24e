-- What the scripts of the fair lock share; put where they say `-- @common`, which is after the
-- uncontended path, so that this path does not pay for it.
--
-- KEYS[1] lock   string "fence:token:owner", expires with the lease
-- KEYS[2] fence  string, the last fencing token minted
-- KEYS[3] queue  list of waiters, the first to enter first
-- KEYS[4] alive  sorted set, waiter -> server time in ms until which it counts as living
--
-- A holder is "token:owner"; a waiter is "f10000:token:owner" or "u10000:token:owner": fair or
-- unfair, and the lease in ms that it wants.  Each waiter listens on a wake-up list of its own,
-- KEYS[1] .. ":wake:" .. token.  That key is not declared, since a release cannot know before it
-- runs who is next; it shares the hash tag, so it lies on the same cluster node.

-- A lost counter restarts from the clock, so it may expire, and a million names leak no keys.  An
-- hour outlasts every step of a server's clock that an NTP daemon or a failover makes.
local FENCE_TTL_MS = 3600000
-- A waiter refreshes itself every slice (2 s); it may miss one before it counts as dead.
local ALIVE_MS = 5000

local clock = redis.call('TIME')
local now_us = clock[1] * 1000000 + clock[2]
local now_ms = math.floor(now_us / 1000)

-- Lua numbers are doubles: exact up to 2^53, but printed short unless told otherwise.
local function digits(number)
  return string.format('%.0f', number)
end

local function belongs_to(value, holder)
  return value and string.sub(value, string.find(value, ':', 1, true) + 1) == holder
end

local function wake_list(holder)
  return KEYS[1] .. ':wake:' .. string.match(holder, '^[^:]*')
end

local function grant(holder, lease_ms)
  local last = tonumber(redis.call('GET', KEYS[2]) or 0)
  local fence = digits(math.max(last + 1, now_us))
  redis.call('SET', KEYS[2], fence, 'PX', FENCE_TTL_MS)
  redis.call('SET', KEYS[1], fence .. ':' .. holder, 'PX', lease_ms)
  return fence
end

local function wake(holder, fence, lease_ms)
  local list = wake_list(holder)
  redis.call('RPUSH', list, fence .. ':' .. digits(now_us))
  redis.call('PEXPIRE', list, lease_ms)
end

-- Hands the lock to the first living waiter, or frees it.  A fair waiter gets the lock itself with
-- its wake-up (no round trip, and nobody can slip in between); an unfair one is only told to try.
-- Returns the fence if the heir is `caller`, who is then not woken but answered.
local function pass_on(caller)
  while true do
    local waiter = redis.call('LPOP', KEYS[3])
    if not waiter then
      redis.call('DEL', KEYS[1])
      return false
    end
    local alive_until = redis.call('ZSCORE', KEYS[4], waiter)
    redis.call('ZREM', KEYS[4], waiter)
    if alive_until and tonumber(alive_until) > now_ms then
      local mode, lease_ms, holder = string.match(waiter, '^(.)(%d+):(.*)$')
      if mode == 'u' then
        redis.call('DEL', KEYS[1])
        wake(holder, '0', lease_ms)
        return false
      end
      local fence = grant(holder, lease_ms)
      if holder == caller then
        return fence
      end
      wake(holder, fence, lease_ms)
      return false
    end
  end
end

local function leave_queue(waiter)
  if redis.call('ZREM', KEYS[4], waiter) == 1 then
    redis.call('LREM', KEYS[3], 0, waiter)
  end
end
