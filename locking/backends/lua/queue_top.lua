-- Reads what is due, the longest due first.   ARGV[1] how many at most
--
-- Returns id, ms at which it was due, and so on.

-- @queue

recover()
return redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', now, 'WITHSCORES', 'LIMIT', 0, ARGV[1])
