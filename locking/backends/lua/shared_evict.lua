-- Puts everybody out of the shared and lets the next in.
--
-- Returns a list of the evicted, as "0:token:owner"; empty if nobody was inside.

-- @common
-- @shared

local evicted = redis.call('ZRANGE', KEYS[1], 0, -1)
redis.call('DEL', KEYS[1])
admit(nil)
for i, holder in ipairs(evicted) do
  evicted[i] = '0:' .. holder
end
return evicted
