-- Acquire the lock, or join its queue.
--
-- KEYS[1] lock
-- ARGV[1] holder "token:owner"   ARGV[2] lease in ms   ARGV[3] "f" fair or "u" unfair
-- ARGV[4] "1" to join the queue, "0" for the only or last try, which leaves the queue
--
-- Returns {fence} when the lock is the caller's, else {0, remaining lease of the holder in ms,
-- place in the queue from 1 or 0, server time in us, the last fence minted}.

local value = redis.call('GET', KEYS[1])
if not value then
  -- Free. If nobody queues, this is all; errors are those of a cluster's slot on the move.
  local last = redis.pcall('GET', KEYS[1] .. ':fence')
  if redis.pcall('EXISTS', KEYS[1] .. ':queue') == 0 and (not last or tonumber(last)) then
    local clock = redis.call('TIME')
    local fence = math.max((last or 0) + 1, clock[1] * 1000000 + clock[2])
    local digits = string.format('%.0f', fence)
    redis.call('SET', KEYS[1] .. ':fence', digits, 'PX', 3600000) -- FENCE_TTL_MS of common.lua
    redis.call('SET', KEYS[1], digits .. ':' .. ARGV[1], 'PX', ARGV[2])
    return {fence}
  end
end

-- @common

local holder, lease_ms = ARGV[1], ARGV[2]
local waiter = ARGV[3] .. lease_ms .. ':' .. holder

-- Already the caller's: an earlier try was granted, but its answer or the wake-up was lost.
if belongs_to(value, holder) then
  redis.call('PEXPIRE', LOCK, lease_ms)
  soft('DEL', wake_list(holder))
  return {tonumber(string.match(value, '^%d+'))}
end

-- This answer replaces any wake-up sent before: a grant may have been revoked since.
soft('DEL', wake_list(holder))

local look_again_ms
if value then
  local silent
  silent, look_again_ms = put_back_if_silent(holder_of(value), holder)
  if silent then
    redis.call('DEL', LOCK)
    value = false
  end
end

if not value and ARGV[3] == 'u' then
  leave_queue(waiter, holder)
  return {tonumber(grant(holder, lease_ms))}
end

if ARGV[4] == '1' then
  enqueue(waiter)
end

-- The lock is free and has a queue: its holder crashed. Hand it to the first waiter.
if not value then
  local fence = pass_on(holder)
  if not fence and redis.call('EXISTS', LOCK) == 0 and (soft('EXISTS', QUEUE) or 0) == 0 then
    fence = grant(holder, lease_ms) -- all waiters were dead
  end
  if fence then
    leave_queue(waiter, holder)
    return {tonumber(fence)}
  end
end

if ARGV[4] == '0' then
  leave_queue(waiter, holder)
end
if not value then
  local mode, after_ms = first_waiter()
  look_again_ms = not mode and after_ms
end
return {0, look_again_ms or redis.call('PTTL', LOCK), place_of(waiter), now_us, last_fence()}
