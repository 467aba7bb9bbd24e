-- What the lock's scripts share. Each script inserts it (`-- @common`) behind its uncontended path,
-- so that this path does not pay for it.
--
-- KEYS[1]  lock   string "fence:token:owner"; it expires with the lease
--    ":fence"     string: the last fencing token minted
--    ":queue"     list of waiters, the next holder first
--    ":alive"     sorted set: waiter -> server time in ms until which it counts as alive
--    ":wake:TOKEN"  one list per waiter, which it pops: messages "fence:server time in us:lease in ms";
--                 fence 0 means "ask again"
--
-- A holder is "token:owner". A waiter is "f10000:token:owner": "f" for fair or "u" for unfair, the
-- lease it asks for in ms, and the holder that it will become.
--
-- Only the lock is declared. The other keys share its hash tag, so they are on the same node. While
-- a cluster moves the slot, some of them may be on the other node; `soft` then goes on without them:
-- nobody queues for that moment, waiters ask again, and the lock itself stays exact.

local LOCK = KEYS[1]
local FENCE, QUEUE, ALIVE = LOCK .. ':fence', LOCK .. ':queue', LOCK .. ':alive'

-- A lost counter restarts from the clock, so it may expire and unused names leave no keys. One hour
-- is longer than any step of the clock that NTP or a fail-over causes.
local FENCE_TTL_MS = 3600000
-- A waiter says that it lives every slice (0.4 s); after a dozen missed ones it counts as dead.
local ALIVE_MS = 5000
-- A living waiter reads a message at once. One that has not for this long is passed over: longer
-- than a process waits for a processor, short enough for those behind it.
local SILENT_MS = 350

local clock = redis.call('TIME')
local now_us = clock[1] * 1000000 + clock[2]
local now_ms = math.floor(now_us / 1000)

-- Lua numbers are doubles: exact up to 2^53, but abbreviated unless they are formatted.
local function digits(number)
  return string.format('%.0f', number)
end

-- Runs a command on one of the other keys; returns false if the key is moving to another node.
local function soft(...)
  local answer = redis.pcall(...)
  if type(answer) ~= 'table' or not answer.err then
    return answer
  elseif string.find(answer.err, 'non local key', 1, true) then
    return false
  end
  return error(answer.err, 0)
end

local function last_fence()
  local value = soft('GET', FENCE) or '0'
  return tonumber(value) or error('WRONGTYPE ' .. FENCE .. ' holds ' .. string.sub(value, 1, 80), 0)
end

local function mint()
  local fence = digits(math.max(last_fence() + 1, now_us))
  soft('SET', FENCE, fence, 'PX', FENCE_TTL_MS)
  return fence
end

local function holder_of(value)
  return string.match(value, ':(.*)$') or '' -- a foreign value has no holder
end

local function belongs_to(value, holder)
  return value and holder_of(value) == holder
end

local function grant(holder, lease_ms)
  local fence = mint()
  redis.call('SET', LOCK, fence .. ':' .. holder, 'PX', lease_ms)
  return fence
end

-- A queue whose waiters have all died expires by itself.
local function keep_queue()
  soft('PEXPIRE', QUEUE, 2 * ALIVE_MS)
  soft('PEXPIRE', ALIVE, 2 * ALIVE_MS)
end

local function enqueue(waiter)
  if soft('ZADD', ALIVE, now_ms + ALIVE_MS, waiter) == 1 then
    soft('RPUSH', QUEUE, waiter)
  end
  keep_queue()
end

local function place_of(waiter)
  local before = soft('LPOS', QUEUE, waiter)
  return before and before + 1 or 0
end

local function wake_list(holder)
  return LOCK .. ':wake:' .. string.match(holder, '^[^:]*')
end

local function wake(holder, fence, lease_ms)
  local list = wake_list(holder)
  soft('RPUSH', list, fence .. ':' .. digits(now_us) .. ':' .. lease_ms)
  soft('PEXPIRE', list, lease_ms)
end

-- Returns for how many ms a waiter has not read its first message; nil if it has read all.
local function silent_for(holder)
  local message = soft('LINDEX', wake_list(holder), 0)
  return message and math.abs(now_us - tonumber(string.match(message, ':(%d+)'))) / 1000
end

-- Puts a holder that has not read its grant back to the head of the queue, if it is dead or paused,
-- and asks all other waiters but `caller` whether they live. It cannot believe that it holds the
-- lock: it knows only what it reads. Returns whether it was put back, and otherwise, if it has not
-- read its grant yet, after how many ms to look again.
local function put_back_if_silent(holder, caller)
  local list = wake_list(holder)
  local unread = string.match(soft('LINDEX', list, 0) or '', '^[1-9].*')
  if not unread then
    return false -- a message to ask again says nothing of a holder that did so by itself
  end
  local silent = silent_for(holder)
  if silent < SILENT_MS then
    return false, SILENT_MS - silent
  end
  local sent_us, lease_ms = string.match(unread, '^%d+:(%d+):(%d+)')
  soft('DEL', list)
  soft('RPUSH', list, '0:' .. sent_us .. ':' .. lease_ms)
  soft('PEXPIRE', list, 2 * ALIVE_MS)
  for _, waiter in ipairs(soft('LRANGE', QUEUE, 0, -1) or {}) do
    local lease, other = string.match(waiter, '^.(%d+):(.*)$')
    if other ~= caller and not silent_for(other) then
      wake(other, '0', lease)
      soft('PEXPIRE', wake_list(other), 2 * ALIVE_MS)
    end
  end
  local waiter = 'f' .. lease_ms .. ':' .. holder
  if soft('ZADD', ALIVE, now_ms + ALIVE_MS, waiter) == 1 then
    soft('LPUSH', QUEUE, waiter)
  end
  keep_queue()
  return true
end

local function leave_queue(waiter, holder)
  if soft('ZREM', ALIVE, waiter) == 1 then
    soft('LREM', QUEUE, 0, waiter)
  end
  soft('DEL', wake_list(holder))
end

local function dequeue(waiter)
  soft('LREM', QUEUE, 1, waiter)
  soft('ZREM', ALIVE, waiter)
end

-- Returns the first live waiter as (mode, lease in ms, holder, waiter); removes dead waiters before
-- it, and passes over silent ones. Returns nil if there is none, and then, if a waiter has yet to
-- say whether it lives, after how many ms to look again.
local function first_waiter()
  local place = 0
  while true do
    local waiter = soft('LINDEX', QUEUE, place)
    if not waiter then
      return nil
    end
    local alive_until = soft('ZSCORE', ALIVE, waiter)
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

-- Hands the lock to the first live waiter, or frees it. A fair waiter gets the lock with its
-- wake-up, which saves a round trip and lets nobody in between; an unfair one is only woken to ask
-- again. Returns the fence if the new holder is `caller`, which needs no wake-up.
local function pass_on(caller)
  local mode, lease_ms, holder, waiter = first_waiter()
  while mode == 'u' and caller do -- the caller would wait for each in turn, if all are dead
    dequeue(waiter)
    wake(holder, '0', lease_ms)
    mode, lease_ms, holder, waiter = first_waiter()
  end
  if mode then
    dequeue(waiter)
  end
  if mode ~= 'f' then
    redis.call('DEL', LOCK)
    if mode then
      wake(holder, '0', lease_ms)
    end
    return false
  end
  local fence = grant(holder, lease_ms)
  if holder == caller then
    return fence
  end
  wake(holder, fence, lease_ms)
  return false
end
