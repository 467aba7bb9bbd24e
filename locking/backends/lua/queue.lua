-- What the delay queue's scripts share.
--
-- KEYS[1] waiting    sorted set, id -> when it is due
-- KEYS[2] in flight  sorted set, id -> when it comes back if its consumer does not acknowledge it
--
-- Times are ms of the server's clock, the only one that all consumers share.

local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)

-- What a crashed consumer left is due again, at the end of its claim.
local function recover()
  local left = redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', now, 'WITHSCORES')
  for i = 1, #left, 2 do
    redis.call('ZREM', KEYS[2], left[i])
    redis.call('ZADD', KEYS[1], left[i + 1], left[i])
  end
end
