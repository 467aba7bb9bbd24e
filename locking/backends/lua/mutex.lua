-- The exclusive lock: KEYS[1] is a string "fence:token:owner" that expires with the lease.
-- A waiter's mode is "f" for fair, "u" for unfair.

local function holder_of(value)
  return string.match(value, ':(.*)$') or '' -- a foreign value has no holder
end

local function belongs_to(value, holder)
  return value and holder_of(value) == holder
end

local function grant(holder, lease_ms)
  local fence = mint()
  redis.call('SET', KEYS[1], fence .. ':' .. holder, 'PX', lease_ms)
  return fence
end

-- Hands the lock to the first live waiter, or frees it.  A fair waiter receives the lock with its
-- wake-up, which saves a round trip and lets no other client in between; an unfair one is only told
-- to try again.  Returns the fence if the new holder is `caller`, which needs no wake-up.
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
    redis.call('DEL', KEYS[1])
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
