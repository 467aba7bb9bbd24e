-- Returns a list of "fence:token:owner": the holder's, or nothing if the lock is free.

local value = redis.call('GET', KEYS[1])
return value and {value} or {}
