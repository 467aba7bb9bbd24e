-- Remove ids, whether waiting or in flight.   ARGV ids
--
-- Returns how many were in the queue, waiting or in flight.

-- @queue

local gone = 0
for i = 1, #ARGV do
  gone = gone + redis.call('ZREM', KEYS[1], ARGV[i]) + redis.call('ZREM', IN_FLIGHT, ARGV[i])
end
return gone
