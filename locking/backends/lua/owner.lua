-- Returns "fence:token:owner" of the holder, or false if the lock is free.

return redis.call('GET', KEYS[1])
