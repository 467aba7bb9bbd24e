-- Returns how many living waiters are in the queue; the dead ones leave it at the next hand-over.

-- @common

return redis.call('ZCOUNT', KEYS[4], now_ms, '+inf')
