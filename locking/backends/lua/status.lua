-- Returns {"fence:token:owner" or "" if the lock is free, remaining lease in ms,
-- list of the live waiters, the next holder first}.  Changes nothing.

-- @common

local waiting = {}
for _, waiter in ipairs(redis.call('LRANGE', KEYS[3], 0, -1)) do
  if tonumber(redis.call('ZSCORE', KEYS[4], waiter) or 0) > now_ms then
    waiting[#waiting + 1] = waiter
  end
end
return {redis.call('GET', KEYS[1]) or '', redis.call('PTTL', KEYS[1]), waiting}
