-- Returns the number of live waiters; dead ones are removed at the next hand-over.

-- @common

return redis.call('ZCOUNT', KEYS[4], now_ms, '+inf')
