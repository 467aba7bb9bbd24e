-- Takes the lock away from whoever holds it and gives it to the next in line.
--
-- Returns the evicted "fence:token:owner", or false if nobody held it.

-- @common

local value = redis.call('GET', KEYS[1])
if value then
  pass_on(nil)
end
return value
