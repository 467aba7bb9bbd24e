-- Takes the lock away from whoever holds it and gives it to the next in line.
--
-- Returns a list of the evicted "fence:token:owner"; empty if nobody held it.

-- @common
-- @mutex

local value = redis.call('GET', KEYS[1])
if value then
  pass_on(nil)
end
return value and {value} or {}
