-- Functions shared by the lock's scripts.  A script inserts them with `-- @common` after its
-- uncontended path, so that this path does not pay for them.
--
-- KEYS[1] lock   the holder; see mutex.lua
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
-- A waiter refreshes this every slice (0.4 s); it counts as dead after missing a dozen.
local ALIVE_MS = 5000
-- A living waiter reads a message at once.  One that has not read it for this long is passed over:
-- longer than a process waits for a processor, short enough for those behind it.
local SILENT_MS = 350

local clock = redis.call('TIME')
local now_us = clock[1] * 1000000 + clock[2]
local now_ms = math.floor(now_us / 1000)

-- Lua numbers are doubles: exact up to 2^53, but abbreviated unless formatted.
local function digits(number)
  return string.format('%.0f', number)
end

local function last_fence()
  local value = redis.call('GET', KEYS[2]) or '0'
  return tonumber(value) or error('WRONGTYPE ' .. KEYS[2] .. ' holds ' .. string.sub(value, 1, 80), 0)
end

local function mint()
  local fence = digits(math.max(last_fence() + 1, now_us))
  redis.call('SET', KEYS[2], fence, 'PX', FENCE_TTL_MS)
  return fence
end

-- A queue whose waiters have all died expires by itself.
local function keep_queue()
  redis.call('PEXPIRE', KEYS[3], 2 * ALIVE_MS)
  redis.call('PEXPIRE', KEYS[4], 2 * ALIVE_MS)
end

local function enqueue(waiter)
  if redis.call('ZADD', KEYS[4], now_ms + ALIVE_MS, waiter) == 1 then
    redis.call('RPUSH', KEYS[3], waiter)
  end
  keep_queue()
end

local function place_of(waiter)
  local before = redis.call('LPOS', KEYS[3], waiter)
  return before and before + 1 or 0
end

local function wake_list(holder)
  return KEYS[1] .. ':wake:' .. string.match(holder, '^[^:]*')
end

-- A message is "fence:server time in us:lease in ms"; fence 0 means: try again.
local function wake(holder, fence, lease_ms)
  local list = wake_list(holder)
  redis.call('RPUSH', list, fence .. ':' .. digits(now_us) .. ':' .. lease_ms)
  redis.call('PEXPIRE', list, lease_ms)
end

-- Returns for how many ms a waiter has not read its first message; nil if it has read all.
local function silent_for(holder)
  local message = redis.call('LINDEX', wake_list(holder), 0)
  return message and math.abs(now_us - tonumber(string.match(message, ':(%d+)'))) / 1000
end

-- Puts an heir that has not read its grant back to the head of the queue, if it is dead or paused,
-- and asks all other waiters but `caller` whether they are alive.  The heir cannot believe that it
-- holds the lock: it knows only what it reads.  Returns whether it was put back, and otherwise, if
-- it has not read its grant yet, after how many ms to look again.
local function put_back_if_silent(heir, caller)
  local list = wake_list(heir)
  local grant = string.match(redis.call('LINDEX', list, 0) or '', '^[1-9].*')
  if not grant then
    return false -- a message to try again says nothing of a holder that did so by itself
  end
  local silent = silent_for(heir)
  if silent < SILENT_MS then
    return false, SILENT_MS - silent
  end
  local sent_us, lease_ms = string.match(grant, '^%d+:(%d+):(%d+)')
  redis.call('DEL', list)
  redis.call('RPUSH', list, '0:' .. sent_us .. ':' .. lease_ms)
  redis.call('PEXPIRE', list, 2 * ALIVE_MS)
  for _, waiter in ipairs(redis.call('LRANGE', KEYS[3], 0, -1)) do
    local lease, holder = string.match(waiter, '^.(%d+):(.*)$')
    if holder ~= caller and not silent_for(holder) then
      wake(holder, '0', lease)
      redis.call('PEXPIRE', wake_list(holder), 2 * ALIVE_MS)
    end
  end
  local waiter = 'f' .. lease_ms .. ':' .. heir
  if redis.call('ZADD', KEYS[4], now_ms + ALIVE_MS, waiter) == 1 then
    redis.call('LPUSH', KEYS[3], waiter)
  end
  keep_queue()
  return true
end

local function leave_queue(waiter, holder)
  if redis.call('ZREM', KEYS[4], waiter) == 1 then
    redis.call('LREM', KEYS[3], 0, waiter)
  end
  redis.call('DEL', wake_list(holder))
end

local function dequeue(waiter)
  redis.call('LREM', KEYS[3], 1, waiter)
  redis.call('ZREM', KEYS[4], waiter)
end

-- Returns the first live waiter as (mode, lease in ms, holder, waiter); removes dead waiters before
-- it, and passes over silent ones.  Returns nil if there is none, and then, if a waiter has yet to
-- say whether it is alive, after how many ms to look again.
local function first_waiter()
  local place = 0
  while true do
    local waiter = redis.call('LINDEX', KEYS[3], place)
    if not waiter then
      return nil
    end
    local alive_until = redis.call('ZSCORE', KEYS[4], waiter)
    if alive_until and tonumber(alive_until) > now_ms then
      local mode, lease_ms, holder = string.match(waiter, '^(.)(%d+):(.*)$')
      local silent = silent_for(holder)
      if not silent then
        return mode, lease_ms, holder, waiter
      elseif silent < SILENT_MS then
        return nil, SILENT_MS - silent
      end
      place = place + 1
    else
      dequeue(waiter)
    end
  end
end
