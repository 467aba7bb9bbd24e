-- Read due ids, the longest due first.   ARGV[1] largest number of ids
--
-- Returns pairs: id, due time in ms.

-- @queue

recover()
return redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', now, 'WITHSCORES', 'LIMIT', 0, ARGV[1])
