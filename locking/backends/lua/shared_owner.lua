-- Returns a list of "0:token:owner", one per holder of the shared lock.

-- @common
-- @shared

local inside = redis.call('ZRANGE', KEYS[1], 0, -1)
for i, holder in ipairs(inside) do
  inside[i] = '0:' .. holder
end
return inside
