-- Functions shared by the delay queue's scripts.
--
-- KEYS[1]          waiting: sorted set, id -> due time
--    ":in-flight"  sorted set, id -> time at which its claim ends and it becomes due again
--
-- Times are ms of the server's clock, the only clock that all consumers share.

local IN_FLIGHT = KEYS[1] .. ':in-flight'
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)

-- Makes the ids of crashed consumers due again, as of the expiry of their claims.
local function recover()
  local left = redis.call('ZRANGEBYSCORE', IN_FLIGHT, '-inf', now, 'WITHSCORES')
  for i = 1, #left, 2 do
    redis.call('ZREM', IN_FLIGHT, left[i])
    redis.call('ZADD', KEYS[1], left[i + 1], left[i])
  end
end
