-- Returns a list with the holder's "fence:token:owner"; empty if the lock is free.

local value = redis.call('GET', KEYS[1])
return value and {value} or {}
