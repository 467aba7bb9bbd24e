-- Read who holds the lock and who waits for it; changes nothing.
--
-- KEYS[1] lock
--
-- Returns {"fence:token:owner" or "" if the lock is free, remaining lease in ms, list of the live
-- waiters, the next holder first}.

-- @common

local waiting = {}
for _, waiter in ipairs(soft('LRANGE', QUEUE, 0, -1) or {}) do
  if tonumber(soft('ZSCORE', ALIVE, waiter) or 0) > now_ms then
    waiting[#waiting + 1] = waiter
  end
end
return {redis.call('GET', LOCK) or '', redis.call('PTTL', LOCK), waiting}
