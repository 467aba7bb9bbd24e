-- The shared lock: KEYS[1] is a sorted set, holder -> server time in ms at which its lease expires.
--
-- The prefix of a holder's token says with whom it may share the lock: "r-..." a reader, with other
-- readers; "w-..." a writer, with no one; "s5-..." the holder of one of five permits, "s5x2-..." of
-- two of them.

redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now_ms)

local function set_expiry(holder, lease_ms)
  redis.call('ZADD', KEYS[1], now_ms + lease_ms, holder)
  -- The set lives as long as its longest lease; PEXPIRE's GT would never expire a new set.
  if redis.call('PTTL', KEYS[1]) < tonumber(lease_ms) then
    redis.call('PEXPIRE', KEYS[1], lease_ms)
  end
end

local function grant(holder, lease_ms)
  set_expiry(holder, lease_ms)
  return mint()
end

local function permits_of(holder)
  return tonumber(string.match(holder, '^s%d+x(%d+)-') or 1)
end

-- Returns the number of permits that was set for all handles of the semaphore, or false.
local function resized()
  return redis.call('GET', KEYS[1] .. ':permits')
end

local function may_enter(holder)
  local inside = redis.call('ZRANGE', KEYS[1], 0, -1)
  local permits = string.match(holder, '^s(%d+)')
  permits = permits and (resized() or permits)
  if #inside == 0 then
    return not permits or permits_of(holder) <= tonumber(permits)
  end
  if not permits then
    return string.sub(holder, 1, 1) == 'r' and string.sub(inside[1], 1, 1) == 'r'
  end
  local taken = permits_of(holder)
  for _, other in ipairs(inside) do
    taken = taken + permits_of(other)
  end
  return taken <= tonumber(permits)
end

-- Admits waiters from the front of the queue and stops at the first that may not enter, so that
-- readers cannot starve a writer.  Returns the fence if `caller` is admitted.
local function admit(caller)
  local callers_fence = false
  while true do
    local mode, lease_ms, holder, waiter = first_waiter()
    if not mode or not may_enter(holder) then
      return callers_fence
    end
    dequeue(waiter)
    local fence = grant(holder, lease_ms)
    if holder == caller then
      callers_fence = fence
    else
      wake(holder, fence, lease_ms)
    end
  end
end
